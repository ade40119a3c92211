#!/bin/sh
# Three reports, 50 ms apart, then the result.  Whether they reach the client is the server's business.
read -r job || exit 1
echo '{"progress":{"done":0,"total":100}}'
sleep 0.05
echo '{"progress":{"done":50,"total":100}}'
sleep 0.05
echo '{"progress":{"done":100,"total":100}}'
echo '{"content":{"type":"text","text":"Progress finished"}}'
echo '{"result":{"isError":false}}'
