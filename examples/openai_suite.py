#!/usr/bin/env python3
"""Hold tokenrouter-host against the official OpenAI client: real calls, synchronous and asynchronous, whole and streamed.

    pip install openai
    tokenrouter-host &
    python3 examples/openai_suite.py [URL]        # default: http://127.0.0.1:30000

Ends with a line for each check, and with exit code 1 if one of them fails.
"""

import asyncio
import re
import sys
import traceback

from openai import AsyncOpenAI, BadRequestError, NotFoundError, OpenAI

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:30000"
client = OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)

PROMPT = "67-95-32-35-09="
ANSWER = "67-95=72;72-32=40;40-35=05;05-09=96;A96"
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
GREEDY = {"model": "tiny", "prompt": PROMPT, "max_tokens": 64, "temperature": 0}


def at_the_same_time(one, count):
    """What `one(client, place)` returns for every place. A client belongs to one event loop."""

    async def run():
        async with AsyncOpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0) as asynchronous:
            return await asyncio.gather(*[one(asynchronous, place) for place in range(count)])

    return asyncio.run(run())


def models():
    ids = [model.id for model in client.models.list()]
    assert ids[0] == "tiny" and "tiny/large" in ids, ids


def whole():
    answer = client.completions.create(**GREEDY)
    assert answer.object == "text_completion" and answer.model == "tiny"
    assert answer.choices[0].text == ANSWER, answer
    assert answer.choices[0].finish_reason == "stop"
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (16, 40, 56)


def streamed():
    chunks = list(client.completions.create(**GREEDY, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == ANSWER
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert reasons == ["stop"], reasons
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 40
    assert all(chunk.usage is None for chunk in chunks[:-1])


def stopped():
    answer = client.completions.create(**GREEDY, stop=["=40", "zz"]).choices[0]
    assert (answer.text, answer.finish_reason) == ("67-95=72;72-32", "stop")
    answer = client.completions.create(**{**GREEDY, "max_tokens": 5}).choices[0]
    assert (answer.text, answer.finish_reason) == ("67-95", "length")


def several():
    request = {**GREEDY, "temperature": 1.2, "seed": 11}
    first = client.completions.create(**{**request, "prompt": [PROMPT, "11+22="]}, n=2)
    second = client.completions.create(**{**request, "prompt": [PROMPT, "11+22="]}, n=2)
    assert [choice.index for choice in first.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in first.choices] == [choice.text for choice in second.choices]
    ids = client.completions.create(**GREEDY, extra_body={"return_token_ids": True}).choices[0].prompt_token_ids
    assert client.completions.create(**{**GREEDY, "prompt": ids}).choices[0].text == ANSWER
    assert len(client.completions.create(**{**GREEDY, "prompt": [ids, ids]}).choices) == 2


def logprobs():
    answer = client.completions.create(**GREEDY, logprobs=3).choices[0]
    lists = answer.logprobs
    assert len(lists.tokens) == len(lists.token_logprobs) == len(lists.top_logprobs) == len(lists.text_offset) == 40
    for token, logprob, top in zip(lists.tokens, lists.token_logprobs, lists.top_logprobs):
        assert logprob <= 0 and top[token] == logprob and len(top) <= 4
    # Without penalties, the most probable token is the greedy one.
    assert all(max(top.values()) == logprob for logprob, top in zip(lists.token_logprobs, lists.top_logprobs))
    assert all(ANSWER[offset] == token for token, offset in zip(lists.tokens[:-1], lists.text_offset))


def shaped():
    request = {**GREEDY, "max_tokens": 12}
    repeated = client.completions.create(**request, logit_bias={"5": 100}, extra_body={"ignore_eos": True}).choices[0].text
    assert len(set(repeated)) == 1 and len(repeated) == 12, repeated
    varied = client.completions.create(**GREEDY, presence_penalty=2, frequency_penalty=2).choices[0].text
    assert varied != ANSWER
    assert client.completions.create(**GREEDY, echo=True).choices[0].text == PROMPT + ANSWER


def routed():
    answer = client.completions.create(
        **GREEDY, extra_body={"tokenrouter": {"attribution": True, "options": {"threshold": 0.05}}}
    )
    tokens = answer.choices[0].attribution
    assert {token["model"] for token in tokens} <= {"small", "large"} and len(tokens) == answer.usage.completion_tokens
    assert sum(answer.usage.tokenrouter["tokens_by_model"].values()) == answer.usage.completion_tokens


def chat():
    request = {
        "model": "tiny",
        "messages": [{"role": "user", "content": PROMPT}],
        "temperature": 0,
        "max_completion_tokens": 64,
    }
    answer = client.chat.completions.create(**request)
    assert answer.object == "chat.completion" and answer.choices[0].message.role == "assistant"
    content = answer.choices[0].message.content
    assert content and answer.choices[0].finish_reason in ("stop", "length")
    chunks = list(client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == content
    assert chunks[-1].choices == [] and chunks[-1].usage == answer.usage
    parts = [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]
    assert client.chat.completions.create(**{**request, "messages": parts}).choices[0].message.content == content
    tokens = client.chat.completions.create(**request, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    assert bytes(byte for token in tokens for byte in token.bytes).decode() == content
    assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in tokens)
    shaped = client.chat.completions.create(**request, extra_body={"guided_regex": "A[0-9]{2}"}).choices[0].message.content
    assert re.fullmatch("A[0-9]{2}", shaped), shaped
    for fields, param in [({"tools": [TOOL]}, "tools"), ({"messages": []}, "messages"), ({"top_logprobs": 2}, "top_logprobs")]:
        try:
            client.chat.completions.create(**{**request, **fields})
        except BadRequestError as raised:
            assert raised.param == param, raised
        else:
            raise AssertionError(f"{fields} is accepted")


def chat_at_once():
    async def one(asynchronous, place):
        messages = [{"role": "user", "content": PROMPT}]
        request = {"model": "tiny", "messages": messages, "max_tokens": 32, "temperature": 0.9, "seed": place % 2}
        if place % 4 < 2:
            stream = await asynchronous.chat.completions.create(**request, stream=True)
            return "".join([choice.delta.content or "" async for chunk in stream for choice in chunk.choices])
        return (await asynchronous.chat.completions.create(**request)).choices[0].message.content

    texts = at_the_same_time(one, 16)
    assert len(set(texts[::2])) == len(set(texts[1::2])) == 1, "a seed has two answers"


def errors():
    for fields, error, code, param in [
        ({"model": "gpt-4"}, NotFoundError, "model_not_found", "model"),
        ({"temperature": 3}, BadRequestError, None, "temperature"),
        ({"suffix": "end"}, BadRequestError, "unsupported_parameter", "suffix"),
        ({"max_tokens": 5000}, BadRequestError, "context_length_exceeded", "prompt"),
        ({"prompt": ""}, BadRequestError, None, "prompt"),
        ({"n": 1000, "stream": True}, BadRequestError, None, "n"),
    ]:
        try:
            client.completions.create(**{**GREEDY, **fields})
        except error as raised:
            assert (raised.code, raised.param) == (code, param), raised
        else:
            raise AssertionError(f"{fields} is accepted")


def at_once():
    async def one(asynchronous, place):
        request = {**GREEDY, "temperature": 0.9, "seed": place % 4}
        if place % 2:
            stream = await asynchronous.completions.create(**request, stream=True)
            return "".join([choice.text async for chunk in stream for choice in chunk.choices])
        return (await asynchronous.completions.create(**request)).choices[0].text

    texts = at_the_same_time(one, 32)
    for seed in range(4):
        assert len({text for place, text in enumerate(texts) if place % 4 == seed}) == 1, "a seed has two answers"


def leaving():
    for _ in range(8):
        with client.completions.create(**{**GREEDY, "temperature": 1, "max_tokens": 400}, stream=True) as stream:
            next(iter(stream))
    assert client.completions.create(**GREEDY).choices[0].text == ANSWER


def main():
    failed = 0
    for check in [models, whole, streamed, stopped, several, logprobs, shaped, routed, chat, chat_at_once, errors, at_once, leaving]:
        try:
            check()
            print(f"ok      {check.__name__}")
        except Exception:
            failed += 1
            print(f"FAILED  {check.__name__}\n{traceback.format_exc()}")
    sys.exit(1 if failed else 0)


main()
