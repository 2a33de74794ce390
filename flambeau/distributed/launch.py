"""torch.distributed.launch: torchrun's predecessor, which passes --local-rank to each worker."""

from __future__ import annotations

from argparse import Namespace

from ..native.foundation.user_frames import warn
from .run import get_args_parser, run

__all__ = ["launch", "main", "parse_args"]


def parse_args(args: list[str] | None) -> Namespace:
    """Parse the command line, by default from sys.argv."""
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", default=False, action="store_true",
                        help="pass the local rank in LOCAL_RANK alone")
    return parser.parse_args(args)


def launch(args: Namespace) -> None:
    """Run a parsed command line."""
    if args.no_python and not args.use_env:
        raise ValueError(
            "When using the '--no-python' flag, you must also set the '--use-env' flag."
        )
    run(args)


def main(args: list[str] | None = None) -> None:
    """Run the command line."""
    warn(
        "The module torch.distributed.launch is deprecated\n"
        "and will be removed in future. Use torchrun.\n"
        "Note that --use-env is set by default in torchrun.\n"
        "If your script expects `--local-rank` argument to be set, please\n"
        "change it to read from `os.environ['LOCAL_RANK']` instead. See \n"
        "https://pytorch.org/docs/stable/distributed.html#launch-utility for \n"
        "further instructions\n",
        FutureWarning,
    )
    launch(parse_args(args))


if __name__ == "__main__":
    main()
