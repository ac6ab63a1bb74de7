#!/bin/sh
# Ask tokenrouter-host with curl. Start the server first; the argument is its URL.
#
#     tokenrouter-host &
#     sh examples/curl.sh [URL]        # default: http://127.0.0.1:30000
set -eu

url=${1:-http://127.0.0.1:30000}

ask() {
    curl --silent --show-error --no-buffer "$url/v1/completions" --header 'content-type: application/json' --data "$1"
    echo
}

echo "# What may be asked for"
curl --silent --show-error "$url/v1/models"
echo

echo "# A whole answer: the small model writes, the large one where the small one is uncertain"
ask '{"model": "tiny", "prompt": "23*03-98-37*05=", "max_tokens": 64, "temperature": 0}'

echo "# The large model alone"
ask '{"model": "tiny/large", "prompt": "23*03-98-37*05=", "max_tokens": 64, "temperature": 0}'

echo "# Streamed, sampled, with the tokens' writers and an option of the policy for this request"
ask '{"model": "tiny", "prompt": "23*03-98-37*05=", "max_tokens": 4, "temperature": 0.8, "seed": 7, "stream": true,
      "tokenrouter": {"attribution": true, "options": {"threshold": 0.05}}}'

echo "# An error names the field, what is wrong and what would be right"
ask '{"model": "tiny", "prompt": "23*03-98-37*05=", "max_tokens": "many"}'

echo "# What is served, and what it has done so far"
curl --silent --show-error "$url/info"
echo
