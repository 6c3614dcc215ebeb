# Inside the build of the Dockerfile: the lock beside the package, for provenance, and away with what
# no program reads at run time (libraries' own tests, headers, static libraries, pip itself).
set -eu
packages=$(/opt/tabsweep/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp requirements.lock "$packages/tabsweep/requirements.lock"

rm -rf "$packages"/pyarrow/include "$packages"/pyarrow/tests "$packages"/torch/test \
    "$packages"/torch/include "$packages"/ray/cpp "$packages"/ray/jars
find "$packages/pandas" "$packages/scipy" "$packages/sklearn" "$packages/networkx" "$packages/sympy" \
    -depth -type d -name tests -exec rm -rf {} +
find "$packages/torch/lib" -name '*.a' -delete
find /opt/tabsweep -depth -type d -name __pycache__ -exec rm -rf {} +
/opt/tabsweep/bin/pip uninstall --yes pip
/opt/tabsweep/bin/python -m compileall -q -j 2 "$packages/tabsweep"
/opt/tabsweep/bin/bench --version
