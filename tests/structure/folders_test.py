#!/usr/bin/env python3
"""Holds the folders of the product to an order: none includes another that includes it, directly
or by way of others.

EXCEPTIONS lists the circles that are still to be opened. A circle may shrink; one that is gone must
leave the list."""

import pathlib
import sys
import unittest

import numbers  # the script beside this file

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXCEPTIONS = ()


def forbidden(circles, exceptions):
    """The circles that no exception covers."""
    return [circle for circle in circles if not any(set(circle) <= one for one in exceptions)]


class FoldersTest(unittest.TestCase):
    def test_no_folders_include_each_other(self):
        files = numbers.files_of(ROOT)
        self.assertGreater(len(files), 1000)
        circles = numbers.folder_circles(files)
        self.assertEqual([], forbidden(circles, EXCEPTIONS))
        unused = [one for one in EXCEPTIONS if not any(set(circle) <= one for circle in circles)]
        self.assertEqual([], unused, "these circles are gone: take them from EXCEPTIONS")

    def test_notices_a_circle(self):
        files = {"services/a/x.h": '#include "services/b/y.h"\n',
                 "services/b/y.h": '#include "services/c/z.h"\n',
                 "services/c/z.h": "", "services/c/w.cc": '#include "services/a/x.h"\n'}
        circles = numbers.folder_circles(files)
        self.assertEqual([["services/a", "services/b", "services/c"]], circles)
        self.assertEqual(circles, forbidden(circles, EXCEPTIONS))
        allowed = {"services/a", "services/b", "services/c", "services/d"}
        self.assertEqual([], forbidden(circles, [allowed]))
        del files["services/c/w.cc"]
        self.assertEqual([], numbers.folder_circles(files))


if __name__ == "__main__":
    sys.exit(unittest.main())
