#!/bin/sh
# One direction of the broad models: teacher, its translations of the corpus, student. usage: recipes/broad.sh en-de [PART...]
# PART is any of teacher, distill, student; all three unless given. PYTHON: the interpreter (python3).
set -eu
direction=$1
shift
python=${PYTHON:-python3}
source=${direction%-*}
target=${direction#*-}
case $source in en) pair=$direction ;; *) pair=$target-$source ;; esac
corpus=data/corpus-$pair

for part in ${*:-teacher distill student}; do
    case $part in
    teacher) "$python" -m dragoman train "recipes/broad-$direction-teacher.toml" ;;
    distill)
        mkdir -p data/distilled
        "$python" -m dragoman distill "runs/broad-$direction-teacher/best" --source "$corpus/train.$source.gz" \
            --reference "$corpus/train.$target.gz" > "data/distilled/broad-$direction"
        gzip -f "data/distilled/broad-$direction"
        ;;
    student) "$python" -m dragoman train "recipes/broad-$direction.toml" ;;
    *) echo "recipes/broad.sh: $part: no such part" >&2; exit 2 ;;
    esac
done
