# Inside the build of the Dockerfile: the lock beside the package, for provenance, and away with what
# no program reads at run time (libraries' own tests, headers, static libraries, pip itself). Compiled
# bytecode stays: the image is read-only, and nobody could write it later.
set -eu
packages=$(/opt/tabsweep/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp requirements.lock "$packages/tabsweep/requirements.lock"

rm -rf "$packages"/pyarrow/include "$packages"/pyarrow/tests "$packages"/torch/test \
    "$packages"/torch/include "$packages"/ray/cpp "$packages"/ray/jars
find "$packages/pandas" "$packages/scipy" "$packages/sklearn" "$packages/networkx" "$packages/sympy" \
    -depth -type d -name tests -exec rm -rf {} +
find "$packages/torch/lib" -name '*.a' -delete
/opt/tabsweep/bin/pip uninstall --yes pip
/opt/tabsweep/bin/bench --version
