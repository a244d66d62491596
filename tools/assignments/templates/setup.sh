#!/usr/bin/env bash
# Gradescope runs this once, when it makes the image.
set -e
apt-get update
apt-get install -y python3-venv util-linux
python3 -m venv /autograder/venv
/autograder/venv/bin/pip install numpy scipy
