"""Masking: a text with what looks like a password or a key as dots.

It goes by names (``…_TOKEN=``, ``"password":``, ``--secret``), by places (``user:…@host``, ``curl -u user:…``) and by the
shapes of well-known keys. It is for what people do by habit; it does not stop a person who wants to show a secret. In
doubt it masks: ``token: x`` in a sentence, too. A name for something to count or to find is none: ``max_tokens``,
``tokenizer``, ``password_file``; nor is a reference to a variable: ``--token "$TOKEN"``.
"""

import re

_MASK = "•••"

# No text makes these slow: each begins with something fixed, what stands in between is bounded, and what is not is last.
_NAME = (
    r"(?:passw(?:or)?d|passphrase|secret|token|credentials?|secret_key_base|"
    r"(?:api|access|private|secret|auth|account|signing|encryption)[_-]?key(?:[_-]id)?|"
    r"(?<=[a-z0-9][_-])(?:pass|pwd)|(?<![a-z0-9])pass(?=[=:]\S))"
)
_FLAG = r"(?:passw(?:or)?d|pass|passphrase|token|secret|(?:api|access|auth|secret|private|account)-?key)"
_VALUE = r"""(?!"?\$[\w{(]|•)(?:"(?:[^"\\]|\\.)*+"?|'[^']*+'?|\\"[^"\\]*+(?:\\")?|[^\s"'&;|<>()]++)"""
_SAME = r"\b[^|;&\n]{0,300}?\s"  # in the same command

_SECRETS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)(?:(?!-----END)[\s\S])*+",
        r"(?i)(authorization\\?[\"']?\s{0,4}[:=]\s{0,4}+\\?[\"']?(?:[a-z]{1,20}\s{1,4})?+)(?!\$)[^\"'\\\n]++",
        r"(?i)(\bcookie:\s{0,4}+)(?!\$)[^\"'\n]++",
        rf"(?i)({_NAME}\\?[\"']?\s{{0,4}}(?::=|[=:])(?!=)\s{{0,4}}){_VALUE}",
        rf"(?i)((?<![\w-])--(?!no-|ask-)[a-z-]{{0,30}}?{_FLAG}\s{{1,4}})(?!-){_VALUE}",
        rf"(?i)({_NAME}\s{{1,4}})(?=[\w/+]{{0,100}}\d)[\w/+=]{{20,}}+",
        rf"(\b(?:curl|wget){_SAME}(?:-u\s?|-U\s?|--(?:proxy-)?user[ =])[\"']?[^\s:\"']{{1,100}}:)(?!\$)[^\s\"']++",
        rf"(\b(?:mysql(?:dump|admin|import)?|mariadb(?:-dump)?){_SAME}-p)(?!\s){_VALUE}",
        rf"(\b(?:sshpass\s{{1,4}}-p\s?|redis-cli{_SAME}-a\s?|docker\s{{1,4}}login{_SAME}-p\s?)){_VALUE}",
        r"(?i)(\bbearer\s{1,4})(?=[\w.~+/-]{0,200}\d)[\w.~+/=-]{8,}+",
        r"(://[^\s/:@]{0,200}:)(?!\$)[^\s/?#]{1,500}(?=@)",
        r"()\beyJ[\w-]{8,}+(?:\.[\w-]++){1,2}",
        r"()\b(?:sk-|[psr]k_(?:live|test)_)(?=[\w-]{0,100}\d)[\w-]{16,}+",
        r"()\b(?:gh[oprsu]_|github_pat_|glpat-|xox[abeoprs]-|dop_v1_|shpat_|AIza|ya29\.|pypi-)[\w-]{16,}+",
        r"()\b(?:(?:hf|npm)_[A-Za-z0-9]{30,}+|SG\.[\w-]{16,}+\.[\w-]{16,}+|A[KS]IA[A-Z0-9]{16}\b)",
    )
)


def mask(text: str) -> str:
    """The text with what looks like a password or a key as dots."""
    for secret in _SECRETS:
        text = secret.sub(rf"\1{_MASK}", text)
    return text
