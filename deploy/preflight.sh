#!/usr/bin/env bash
# Lists everything that is missing on this machine, with the command that installs it.
set -u
missing=0
need() { # what, how to install it
    printf 'missing: %s\n  install it with: %s\n' "$1" "$2" >&2
    missing=1
}
apt='sudo apt-get install -y'

python=$(command -v python3.11 || command -v python3 || true)
if [ -z "$python" ]; then
    need 'Python 3.11' "$apt python3 python3-venv"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    need "Python 3.11 or newer ($("$python" --version) found)" "$apt python3.11 python3.11-venv"
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    need "Python's venv" "$apt python3-venv"
fi

java=java
[ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ] && java=$JAVA_HOME/bin/java
if ! command -v "$java" >/dev/null; then
    need 'Java 17' "$apt openjdk-17-jre-headless"
else
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1)
    [ "${version:-0}" -ge 17 ] || need "Java 17 or newer (version ${version:-unknown} found)" "$apt openjdk-17-jre-headless"
fi
command -v git >/dev/null || need git "$apt git"
exit $missing
