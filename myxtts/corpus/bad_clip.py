"""The reason why a clip is left out."""


class BadClip(Exception):
    """Raised for a clip that must not be trained on: BadClip("silent", "peak -75.1 dBFS").

    `reason` is one of a few, by which summary.txt counts; `detail` is about this clip.
    """

    def __init__(self, reason: str, detail: str = ""):
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail
