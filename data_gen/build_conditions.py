"""Build condition triplets from annotated questions, facts and supporting sentences.

    data_gen/build_conditions.py --source 2wikimultihopqa=train.jsonl \\
        --source hotpotqa=train.jsonl --evidences evidences.jsonl --corpus corpus.jsonl \\
        --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (ConditionSample), card.json and card.md. Records of one passage
share a text and a split (Tri-RAG §III-B)."""

from data_gen.builds.build import build_command
from data_gen.builds.conditions import ConditionsBuild

main = build_command(ConditionsBuild, __doc__)

if __name__ == "__main__":
    main()
