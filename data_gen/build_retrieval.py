"""Build the samples of a retriever: a query, the passage that it should find, and look-alikes.

    data_gen/build_retrieval.py --source 2wikimultihopqa=train.jsonl --source musique=train.jsonl \\
        --source hotpotqa=train.jsonl --source reading=train.jsonl --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (RetrievalSample), card.json and card.md. Queries are whole
questions and their filled sub-questions; look-alikes are the best passages of BM25 that neither
support the question nor hold the answer. All samples of a question or of a page are in one split.
"""

from data_gen.builds.build import build_command
from data_gen.builds.retrieval import RetrievalBuild

main = build_command(RetrievalBuild, __doc__)

if __name__ == "__main__":
    main()
