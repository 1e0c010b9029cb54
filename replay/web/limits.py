"""Limits: how many tokens a model takes, as its maker says; 0 if it is not known here. By the beginning of its name, the longest first."""

_LIMITS = {
    "claude": 200_000,
    "gpt-3.5": 16_385,
    "gpt-4": 8_192,
    "gpt-4-turbo": 128_000,
    "gpt-4o": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-5": 400_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4": 200_000,
    "gemini": 1_048_576,
    "deepseek": 128_000,
    "mistral-large": 128_000,
}


def limit_of(model: str) -> int:
    name = model.rpartition("/")[2]
    return next(
        (limit for start, limit in sorted(_LIMITS.items(), reverse=True) if name.startswith(start)), 0
    )
