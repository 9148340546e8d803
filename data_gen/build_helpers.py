"""Build the samples of a helper from annotated questions.

    data_gen/build_helpers.py --task decompose --source 2wikimultihopqa=train.jsonl \\
        --source musique=train.jsonl --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (InstructionSample), card.json and card.md. Tasks: subquery (RAS
App. C.2), decompose and resolve (T²RAG §4.3), judge_gap (Trig-Nav §3.2), topic (TH-RAG App. A.3, of
a world alone), choose_topics (TH-RAG App. A.4 and A.5, of `choices=FILE` alone, which
inference/offer_topics.py writes). All samples of a question, or of an entity, are in one split."""

from data_gen.builds.build import build_command
from data_gen.builds.helpers import HelpersBuild

main = build_command(HelpersBuild, __doc__)

if __name__ == "__main__":
    main()
