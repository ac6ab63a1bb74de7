#!/usr/bin/env bash
# How much sooner the second turn of a conversation begins, because prompt and answer of the first are not computed again:
#   examples/second_turn.sh http://127.0.0.1:30000 NUMBERS
# The first prompt counts to NUMBERS, at some tokens a number: 200 are about 900 tokens for most tokenizers.
set -euo pipefail
url=${1:-http://127.0.0.1:30000}
salt="second-turn-$$-$RANDOM" # finds nothing of an earlier run

ask() { # prompt as JSON, max_tokens, prefix_cache
    local body
    body=$(printf '{"prompt": %s, "max_tokens": %d, "temperature": 0, "ignore_eos": true, "return_token_ids": true,
        "cache_salt": "%s", "tokenrouter": {"prefix_cache": %s}}' "$1" "$2" "$salt" "$3")
    curl --silent --show-error --fail-with-body "$url/v1/completions" -H 'content-type: application/json' \
        -H "authorization: Bearer ${TOKENROUTER_API_KEY:-none}" -w '\n%{time_total}' -d "$body"
}

field() { # a number or a list of numbers of a response, without its brackets
    grep --only-matching "\"$1\":\[*[0-9,]*" | head --lines 1 | cut --delimiter : --fields 2 | tr --delete '[' | sed 's/,$//'
}

turn() { # what it is called, prompt, prefix_cache: an answer of one token takes as long as a first token
    local reply
    reply=$(ask "$2" 1 "$3")
    printf '%-36s %5d tokens, %5d of them found, first token after %6.0f ms\n' "$1" "$(field prompt_tokens <<<"$reply")" \
        "$(field cached_tokens <<<"$reply")" "$(tail --lines 1 <<<"$reply" | awk '{print $1 * 1000}')"
}

first=$(ask "\"Count on: $(seq --separator ', ' 1 "${2:-200}")\"" 32 true)
ids="$(field prompt_token_ids <<<"$first"),$(field token_ids <<<"$first")"
second="[$ids]" # goes on where the first ended
turn 'second turn' "$second" true
turn 'second turn, without prefix reuse' "$second" false
