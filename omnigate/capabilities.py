"""What a target's model can do, as far as a translation has to know.

Known per model id from a built-in table and changed per target by the operator. Requests that
pass to an upstream in the client's own protocol never ask for it.
"""

import attrs

#: From the weakest to the strongest; an effort that a model lacks is moved to the nearest it has.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


#: The ``anthropic-version`` of a translated request to an upstream whose config names none. Under
#: it sampling parameters work wherever the model takes them; under later ones nowhere.
DEFAULT_ANTHROPIC_VERSION = "2023-06-01"


@attrs.frozen
class Capabilities:
    """One model at one upstream. The defaults are those of a current model nobody knows.

    Of an Anthropic upstream:

    :ivar thinking: how thinking is asked for: ``"adaptive"``, or ``"budget"`` with a number.
    :ivar thinking_off: whether it may be switched off.
    :ivar forced_tools: whether a tool choice may be forced.
    :ivar mid_system: whether a system message may stand among the others.
    :ivar prefill: whether a last message of the assistant is continued.
    :ivar structured_outputs: whether an answer can be held to a schema.

    Of an OpenAI upstream:

    :ivar reasoning: whether the model reasons and takes an effort.
    :ivar effort_none: whether reasoning can be switched off by the effort ``none``.
    :ivar stop: whether stop sequences are taken.
    :ivar max_tokens_field: the field that bounds the output of a chat.
    :ivar user_field: the field that names the end user.
    :ivar upstream_api: ``"chat"`` or ``"responses"`` where only one of the two is to be asked;
        empty where the one that the client speaks is.
    :ivar tools_over_responses: whether requests with tools are taken over Responses only.

    Of both:

    :ivar sampling: whether ``temperature`` and ``top_p`` are taken.
    :ivar efforts: the efforts the model has; empty where that is not known.
    :ivar max_output: the most tokens it puts out; 0 where that is not known.
    :ivar default_max_tokens: the bound sent to an upstream that must be given one.
    """

    sampling: bool = True
    thinking: str = "adaptive"
    thinking_off: bool = True
    forced_tools: bool = True
    mid_system: bool = True
    prefill: bool = False
    structured_outputs: bool = True
    reasoning: bool = False
    effort_none: bool = False
    stop: bool = True
    max_tokens_field: str = "max_completion_tokens"
    user_field: str = "safety_identifier"
    upstream_api: str = ""
    tools_over_responses: bool = False
    efforts: tuple[str, ...] = ()
    max_output: int = 0
    default_max_tokens: int = 4096
