"""Installs dual_device_strategy and myxtts; `pip install '.[gpu]'` for real GPUs."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "myxtts/__init__.py").read_text())[1]
# From the oldest release that works to the newest that the tests ran with; see
# tests/test_packaging.py and the note on versions in docs/ before raising the upper bound.
TENSORFLOW = ">=2.16,<2.22"
MOONSHINE = (
    "moonshine-voice==0.1.0; sys_platform == 'linux' and platform_machine == 'x86_64'"
)
DEMO = ["espeakng-loader", "matplotlib"]

# What XTTS v2 reads texts with: numbers, pinyin, romaji, romanised Korean.
LANGUAGES = ["num2words", "pypinyin", "cutlet", "fugashi", "unidic-lite", "hangul-romanize"]

setup(
    name="dual-device-strategy",
    version=VERSION,
    description=(
        "A tf.distribute strategy that prepares batches on one device and trains on another, "
        "and an XTTS voice-cloning trainer that uses it"
    ),
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: GPU :: NVIDIA CUDA",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "License :: OSI Approved :: Apache Software License",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Multimedia :: Sound/Audio :: Speech",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    python_requires=">=3.10",
    packages=find_packages(include=["dual_device_strategy*", "myxtts*"]),
    package_data={
        "dual_device_strategy": ["py.typed"],
        "dual_device_strategy.emulation": ["*.cc", "*.h", "*.inc"],
        "myxtts": ["py.typed"],
        "myxtts.corpus.sentences": ["*.txt", "words/*.txt"],
        "myxtts.evaluation": ["*.txt"],
    },
    entry_points={
        "console_scripts": [
            "dual-device = dual_device_strategy.__main__:main",
            "myxtts = myxtts.__main__:main",
        ],
    },
    install_requires=[
        f"tensorflow{TENSORFLOW}",
        "numpy",
        "librosa",
        "soundfile",
        "absl-py",
        "tensorboard",
        "tqdm",
    ],
    extras_require={
        "gpu": [f"tensorflow[and-cuda]{TENSORFLOW}", "nvidia-ml-py"],
        "demo": DEMO,
        # The last moonshine-voice with a model in its wheel, which is for Linux on x86-64 only.
        "evaluation": ["jiwer", MOONSHINE],
        "text": ["num2words"],  # numbers in words, in languages for which myxtts has none
        "languages": LANGUAGES,
        "dev": [
            *DEMO,
            *LANGUAGES,
            "pytest",
            "pytest-rerunfailures",
            "pytest-xdist",
            "ruff",
            "tokenizers",
            "nvidia-ml-py",
        ],
    },
)
