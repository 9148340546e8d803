"""Build the samples of a reader: a question and a passage, and what the passage answers.

    data_gen/build_reading.py --source reading=train.jsonl --per-data-set 2500 \\
        --source 2wikimultihopqa=train.jsonl --source musique=train.jsonl \\
        --source triples=triples.jsonl --datasets tekgen_sample --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (InstructionSample of the task `read`), card.json and card.md.
All samples of a page, of a question or of a text are in one split.
"""

from data_gen.builds.build import build_command
from data_gen.builds.reading import ReadingBuild

main = build_command(ReadingBuild, __doc__)

if __name__ == "__main__":
    main()
