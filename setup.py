"""Installs dual_device_strategy and myxtts; `pip install '.[gpu]'` for real GPUs."""

from setuptools import find_packages, setup

DEMO = ["espeakng-loader", "matplotlib"]

setup(
    name="dual-device-strategy",
    version="0.1.0",
    description=(
        "A tf.distribute strategy that prepares batches on one device and trains on another, "
        "and an XTTS voice-cloning trainer that uses it"
    ),
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=["dual_device_strategy*", "myxtts*"]),
    package_data={
        "dual_device_strategy.emulation": ["*.cc", "*.h", "*.inc"],
        "myxtts.corpus.sentences": ["*.txt", "words/*.txt"],
    },
    entry_points={
        "console_scripts": [
            "dual-device = dual_device_strategy.__main__:main",
        ],
    },
    install_requires=[
        "tensorflow>=2.16",
        "numpy",
        "librosa",
        "soundfile",
        "absl-py",
        "tensorboard",
        "tqdm",
    ],
    extras_require={
        "gpu": ["tensorflow[and-cuda]>=2.16", "nvidia-ml-py"],
        "demo": DEMO,
        "text": ["num2words"],  # numbers in words, in languages for which myxtts has none
        "dev": [*DEMO, "num2words", "pytest", "pytest-rerunfailures", "pytest-xdist", "ruff",
                "nvidia-ml-py"],
    },
)
