"""Build planner and answerer samples from annotated multi-hop questions (RAS Algorithm 1).

    data_gen/build_subq.py --source 2wikimultihopqa=train.jsonl \\
        --corpus 2wikimultihopqa=corpus.jsonl --no-retrieval arc_challenge.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (RasSample), card.json and card.md. Several --source options
may share a NAME; a corpus serves every source of its NAME."""

from data_gen.builds.build import build_command
from data_gen.builds.subq import SubqBuild

main = build_command(SubqBuild, __doc__)

if __name__ == "__main__":
    main()
