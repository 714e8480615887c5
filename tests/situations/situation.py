"""A row of the table."""

import dataclasses


@dataclasses.dataclass
class Situation:
    name: str
    source: str  # where it was reported: repository#number of an issue, or a page
    build: str  # a shell snippet: harness.py, "Shell functions"
    finds: tuple = ()  # ids that the report must have; every FAIL of the report must be among them
    shows: int = 0  # whole profiles that TensorBoard shows once every recommendation is followed
    honest: bool = False  # nothing can be done by a command: the report has advice alone
    logdir: str = "logs"  # what TensorBoard and the check are given, below the tree
    other_user: bool = False  # looked at by a user who owns nothing of it
