#!/bin/sh
# trigger.sh WISHES NAME: have what the tenant sees changed.  A tool cannot do that: it leaves a wish for the operator, who
# is run.py, and waits until it is fulfilled, which is when the file is gone.
read -r job || exit 1
: >"$1/$2"
while [ -e "$1/$2" ]; do sleep 0.02; done
echo '{"content":{"type":"text","text":"changed"}}'
