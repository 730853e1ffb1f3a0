"""Settings that will hurt, each with the better value. Nothing is changed by it.

    for sentence in advice(job, facts_of(job, devices, clips, vocabulary)):
        logging.warning("advice: %s", sentence)

A new rule is a `yield` in one of the generators of `rules`; what it goes by is a field of
`facts.JobFacts`.
"""

from myxtts.command.advice.facts import JobFacts, Place, facts_of
from myxtts.command.advice.rules import GB, advice

__all__ = ["GB", "JobFacts", "Place", "advice", "facts_of"]
