"""Build text-to-triples samples from annotated texts and from aligned passages.

    data_gen/build_triples.py --source 2wikimultihopqa=train.jsonl --evidences evidences.jsonl \\
        --corpus corpus.jsonl --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (TriplesSample), card.json and card.md."""

from data_gen.builds.build import build_command
from data_gen.builds.triples_files import TriplesBuild

main = build_command(TriplesBuild, __doc__)

if __name__ == "__main__":
    main()
