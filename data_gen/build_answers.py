"""Build answers over what a loop found by itself: its own trajectories, the gold answer as label.

    data_gen/build_answers.py --source hotpotqa=train.jsonl \\
        --trajectories runs/rollout/trajectories.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (RasSample), card.json and card.md. An answerer that learned over
an oracle's graphs meets those of its own loop here (DAgger, Ross et al., 2011); with --plans-from
the plans that led to right answers are kept beside it."""

from data_gen.builds.answers import AnswersBuild
from data_gen.builds.build import build_command

main = build_command(AnswersBuild, __doc__)

if __name__ == "__main__":
    main()
