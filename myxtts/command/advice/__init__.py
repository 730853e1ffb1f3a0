"""Finds settings that will hurt, and names better values. It changes nothing.

    for sentence in advice(job, facts_of(job, devices, clips, vocabulary)):
        logging.warning("advice: %s", sentence)

A new rule is a `yield` in one of the generators of `rules`; the facts it needs are fields of
`facts.JobFacts`.
"""

from myxtts.command.advice.facts import JobDevice, JobFacts, facts_of
from myxtts.command.advice.rules import GB, advice

__all__ = ["GB", "JobDevice", "JobFacts", "advice", "facts_of"]
