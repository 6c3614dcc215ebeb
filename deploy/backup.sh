#!/usr/bin/env bash
# What the services of docker-compose.yml keep, into a folder: MLflow's database and artifacts, and runs.
#
#   deploy/backup.sh FOLDER
#
# While everything runs. database.dump is PostgreSQL's own format, consistent at one moment; the folder
# appears under its name when it is whole. A run's folder that a sweep writes to at this moment is
# copied as a killed driver would leave it: `bench resume` goes on from it.
set -euo pipefail
umask 077

folder=$(realpath -m -- "${1:?the folder to write, which must not exist}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ -e $folder ]]; then
    echo "backup.sh: $folder is there already" >&2
    exit 2
fi
mkdir -p "$folder.partial"
trap 'rm -rf "$folder.partial"' EXIT

# The database first: what it names is in the artifacts then.
docker compose exec -T postgres pg_dump --username=tabsweep --format=custom mlflow \
    > "$folder.partial/database.dump"
archive() { # SERVICE, PATH; tar's 1: a file changed while it was read
    docker compose exec -T "$1" sh -c "tar -C '$2' -cf - . || test \$? = 1" | gzip
}
archive mlflow /artifacts > "$folder.partial/artifacts.tar.gz"
archive ray-head /runs > "$folder.partial/runs.tar.gz"
(cd "$folder.partial" && sha256sum ./*.dump ./*.gz > SHA256SUMS)
mv "$folder.partial" "$folder"
trap - EXIT
du -sh "$folder"
