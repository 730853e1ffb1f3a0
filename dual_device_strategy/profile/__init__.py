"""Shows where the time goes: `python -m dual_device_strategy.profile`, or in a program:

    from dual_device_strategy.profile import profile

    result = profile(strategy, dataset, train_step)
    print(result.table())
    result.write_html("profile.html")

Each part is measured alone, then all together under the strategy.
"""

from dual_device_strategy.profile.result import Profile, profile
from dual_device_strategy.profile.staged import ProfileError

__all__ = ["Profile", "ProfileError", "profile"]
