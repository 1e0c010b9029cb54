"""An exported page as text: its data is packed."""

import base64
import gzip
import re


def unpack(page: str) -> str:
    """All that is in a page: what is seen in the file, and its blocks of data, unpacked."""
    blocks = re.findall(r'<script type="application/gzip" data-name="[\w/]+">([^<]*)</script>', page)
    return page + "".join(
        gzip.decompress(base64.b64decode(block)).decode("utf-8", "replace") for block in blocks
    )
