#!/usr/bin/env bash
# How much sooner the second turn of a conversation begins, because prompt and answer of the first are not computed again:
#   examples/second_turn.sh http://127.0.0.1:30000 NUMBERS
# The first prompt counts to NUMBERS, at some tokens a number: 200 are about 1,000 tokens for most tokenizers.
set -euo pipefail
url=${1:-http://127.0.0.1:30000}
first="Continue: $(seq --separator ', ' 1 "${2:-200}")"
salt="second-turn-$$-$RANDOM" # finds nothing of an earlier run

ask() { # max_tokens, prefix_cache, prompt
    local body
    body=$(printf '{"prompt": "%s", "max_tokens": %d, "temperature": 0, "ignore_eos": true, "cache_salt": "%s",
        "tokenrouter": {"prefix_cache": %s}}' "$3" "$1" "$salt" "$2")
    curl --silent --show-error --fail-with-body "$url/v1/completions" -H 'content-type: application/json' \
        -H "authorization: Bearer ${TOKENROUTER_API_KEY:-none}" -w '\n%{time_total}' -d "$body"
}

turn() { # what it is called, and the arguments of ask: the time to a first token, which is all there is
    local reply prompt cached
    reply=$(ask 1 "$2" "$3")
    prompt=$(grep --only-matching '"prompt_tokens":[0-9]*' <<<"$reply" | tr --complement --delete 0-9)
    cached=$(grep --only-matching '"cached_tokens":[0-9]*' <<<"$reply" | tr --complement --delete 0-9)
    printf '%-36s %5d tokens, %5d of them found, first token after %6.0f ms\n' "$1" "$prompt" "$cached" \
        "$(tail --lines 1 <<<"$reply" | awk '{print $1 * 1000}')"
}

turn 'first turn' true "$first"
second="$first. And then? Count on."
turn 'second turn' true "$second"
turn 'second turn, without prefix reuse' false "$second"
