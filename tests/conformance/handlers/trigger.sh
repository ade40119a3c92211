#!/bin/sh
# trigger.sh TOOLCRIB STORE TENANT NAME: change what the tenant sees as an operator would.  Takes the name's grant away
# or, where there is none, gives it: each call makes a visible change, whatever the call before has left behind.
read -r job || exit 1
if "$1" --store "$2" grant remove "$3" "$4" --yes >&2 || "$1" --store "$2" grant add "$3" "$4" >&2; then
	echo '{"content":{"type":"text","text":"changed"}}'
else
	echo '{"content":{"type":"text","text":"the grant could not be changed"}}'
	echo '{"result":{"isError":true}}'
fi
