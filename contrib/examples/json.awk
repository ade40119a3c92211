# One JSON object on one line becomes lines "POINTER<TAB>VALUE", one for each string, number, true, false and null, as
# written: strings keep their quotes and escapes, so a value can be pasted into other JSON.  The input is known to be JSON.
function blank() {
	while (index(" \t\r", substr(s, at, 1)) && at <= n)
		at++
}
function token(   from) {
	from = at++
	if (substr(s, from, 1) == "\"") {
		for (; substr(s, at, 1) != "\"" && at <= n; at++)
			if (substr(s, at, 1) == "\\")
				at++
		at++
	} else {
		while (at <= n && !index(",]} \t\r", substr(s, at, 1)))
			at++
	}
	return substr(s, from, at - from)
}
function value(pointer,   open, key, i) {
	blank()
	open = substr(s, at, 1)
	if (open != "{" && open != "[") {
		print pointer "\t" token()
		return
	}
	at++
	blank()
	for (i = 0; at <= n && !index("]}", substr(s, at, 1)); i++) {
		key = i
		if (open == "{") {
			key = token()
			key = substr(key, 2, length(key) - 2)
			gsub("~", "~0", key)
			gsub("/", "~1", key)
			blank()
			at++                    # the colon
		}
		value(pointer "/" key)
		blank()
		if (substr(s, at, 1) == ",")
			at++
		blank()
	}
	at++
}
{ s = $0; n = length(s); at = 1; value("") }
