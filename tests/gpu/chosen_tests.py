"""Names those of the build's test programs that gpu-prove wants: chosen_tests.py "A;B;..." HAVE_CUDA. A pattern that no test
is called like is an error: tests that were renamed would otherwise be left out without a word."""

import fnmatch
import sys

import test_programs


def main():
    names, have_cuda = sys.argv[1].split(";"), sys.argv[2] == "TRUE"
    wanted = [one for one in test_programs.TESTS if have_cuda or one not in test_programs.CUDA_TESTS]
    missing = [one for one in wanted if not fnmatch.filter(names, one)]
    if missing:
        sys.exit(f"tests/gpu/test_programs.py: no test is called like {', '.join(missing)}")
    print(";".join(sorted(name for name in names if any(fnmatch.fnmatch(name, one) for one in wanted))))


if __name__ == "__main__":
    main()
