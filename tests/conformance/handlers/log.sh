#!/bin/sh
# log.sh TEXT...: each text as a log line of level info, 50 ms apart, then the result.  Texts hold nothing to escape.
read -r job || exit 1
gap=:
for text in "$@"; do
	$gap
	echo "{\"log\":{\"level\":\"info\",\"data\":\"$text\"}}"
	gap='sleep 0.05'
done
echo '{"content":{"type":"text","text":"logged"}}'
