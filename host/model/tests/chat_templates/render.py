"""Writes renderings.json: what Hugging Face's transformers makes of the templates and conversations here.

    pip install transformers jinja2
    python render.py

The tests read renderings.json and need no Python.
"""

import datetime
import json
import pathlib

import jinja2
from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).parent
NOW_S = 1_767_225_600  # 1 January 2026, 00:00 UTC
TOKENS = {"bos_token": "<|begin_of_text|>", "eos_token": "<|im_end|>"}

SYSTEM = {"role": "system", "content": " Be brief.\n"}
HELLO = {"role": "user", "content": "  Hello <b>&'\"\\ 中文 😀\n"}
ANSWER = {"role": "assistant", "content": "<think>\nWho asks?\n</think>\n\nHi  there."}
AGAIN = {"role": "user", "content": "And <|im_end|> again?"}

CONVERSATIONS = {
    "one question": [HELLO],
    "system and question": [SYSTEM, HELLO],
    "a dialogue": [SYSTEM, HELLO, ANSWER, AGAIN],
    "an answer at the end": [HELLO, ANSWER],
    "an answer with a space at the end": [HELLO, {"role": "assistant", "content": "The answer is "}],
    "reasoning in a field": [
        HELLO,
        {"role": "assistant", "content": "Hi.", "reasoning_content": "\nHm.\n"},
        {"role": "tool", "content": "22 °C"},
        {"role": "tool", "content": "dry"},
    ],
    "a tool's answer as the last question": [
        HELLO,
        {"role": "assistant", "content": "I look."},
        {"role": "user", "content": "<tool_response>4</tool_response>"},
    ],
    "a role out of place": [HELLO, SYSTEM],
    "two questions": [HELLO, HELLO],
    "hidden": [HELLO, {"role": "assistant", "content": "x", "hidden": True}, AGAIN],
    "empty texts": [{"role": "system", "content": ""}, {"role": "user", "content": ""}],
}

OPTIONS = {
    "": {"add_generation_prompt": False},
    "prompted": {"add_generation_prompt": True},
    "continued": {"continue_final_message": True},
    "not thinking": {"add_generation_prompt": True, "variables": {"enable_thinking": False}},
    "with variables": {
        "add_generation_prompt": True,
        "variables": {
            "enable_thinking": True,
            "reasoning_effort": "low",
            "settings": {
                "z": [1, 2.0, 1e-7, 1e16, 12345678901234567890, True, None],
                "a": {"html": "<a href='x'>&</a>", "text": "é\u2028\u0001\n\"\\😀", "empty": [], "none": {}},
            },
        },
    },
}


class Frozen(datetime.datetime):
    """The clock that strftime_now reads."""

    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW_S, datetime.timezone.utc)


chat_template_utils.datetime = Frozen


def render(source, messages, options):
    variables = options.get("variables", {})
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            [messages],
            chat_template=source,
            add_generation_prompt=options.get("add_generation_prompt", False),
            continue_final_message=options.get("continue_final_message", False),
            **TOKENS,
            **variables,
        )
        return {"text": texts[0]}
    except (jinja2.exceptions.TemplateError, ValueError) as error:
        return {"error": str(error).split("\n")[0]}


cases = []
for path in sorted(HERE.glob("*.jinja")):
    for conversation, messages in CONVERSATIONS.items():
        for option, options in OPTIONS.items():
            cases.append(
                {
                    "template": path.name,
                    "conversation": conversation,
                    "options": option,
                    **render(path.read_text(), messages, options),
                }
            )

fixture = {
    "now_s": NOW_S,
    "tokens": TOKENS,
    "conversations": CONVERSATIONS,
    "options": OPTIONS,
    "cases": cases,
}
(HERE / "renderings.json").write_text(json.dumps(fixture, ensure_ascii=False, indent=1) + "\n")
print(f"{len(cases)} renderings")
