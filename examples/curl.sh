#!/usr/bin/env bash
# The API with nothing but curl:  examples/curl.sh http://127.0.0.1:30000
set -euo pipefail
url=${1:-http://127.0.0.1:30000}

ask() { # path, body
    curl --silent --show-error --fail-with-body "$url$1" -H 'content-type: application/json' \
        -H "authorization: Bearer ${TOKENROUTER_API_KEY:-none}" -d "$2"
    echo
}

echo '== an answer, and who wrote how much of it'
ask /v1/completions '{"prompt": "23*03-98-37*05=", "max_tokens": 64, "temperature": 0}'

echo '== the same, streamed: server-sent events, then [DONE]'
ask /v1/completions '{"prompt": "12+34=", "max_tokens": 8, "temperature": 0, "stream": true}'

echo '== the steps behind its first tokens: candidates, signals, decisions'
ask /v1/completions '{"prompt": "23*03-98-37*05=", "max_tokens": 7, "temperature": 0, "tokenrouter": {"steps": true}}'

echo '== another threshold, for this request'
ask /v1/completions '{"prompt": "23*03-98-37*05=", "max_tokens": 64, "temperature": 0, "tokenrouter": {"options": {"threshold": 0.05}}}'

echo '== one model alone, in a conversation, held to a format'
ask /v1/chat/completions '{"model": "tiny/large", "messages": [{"role": "user", "content": "12+34="}], "temperature": 0, "guided_regex": "A[0-9]{2}"}'

echo '== what is served'
curl --silent --fail "$url/v1/models" -H "authorization: Bearer ${TOKENROUTER_API_KEY:-none}"
echo
