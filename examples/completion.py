#!/usr/bin/env python3
"""Ask tokenrouter-host through the official OpenAI client, whole and streamed.

    pip install openai
    tokenrouter-host &
    python3 examples/completion.py [URL]        # default: http://127.0.0.1:30000
"""

import sys

from openai import NotFoundError, OpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:30000"
# The server asks for no key, but the client insists on one.
client = OpenAI(base_url=f"{url}/v1", api_key="none")
prompt = "23*03-98-37*05="

print("models:", ", ".join(model.id for model in client.models.list()))

answer = client.completions.create(model="tiny", prompt=prompt, max_tokens=64, temperature=0)
usage = answer.usage.model_dump()
print(f"whole:    {answer.choices[0].text} ({answer.choices[0].finish_reason})")
routed = usage["tokenrouter"]
print(f"          {usage['completion_tokens']} tokens {routed['tokens_by_model']}, {routed['handoffs']} handoffs")

# `tokenrouter` is the server's own field: options of the policy, and who wrote which token.
stream = client.completions.create(
    model="tiny",
    prompt=prompt,
    max_tokens=64,
    temperature=0,
    stream=True,
    stream_options={"include_usage": True},
    extra_body={"tokenrouter": {"attribution": True, "options": {"threshold": 0.05}}},
)
print("streamed: ", end="")
for chunk in stream:
    for choice in chunk.choices:
        for token in getattr(choice, "attribution", None) or []:
            # What the large model wrote stands in brackets.
            print(f"[{token['token']}]" if token["model"] == "large" else token["token"], end="", flush=True)
    if chunk.usage:
        print(f"\n          {chunk.usage.completion_tokens} tokens")

try:
    client.completions.create(model="tiny/huge", prompt=prompt)
except NotFoundError as error:
    print(f"an error: {error.code}: {error.body['message']}")
