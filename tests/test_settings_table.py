"""The rows of the table of settings."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.settings_table import SETTINGS, BadValueError


class TableTests(SynchronousTestCase):
    def test_every_row_tells_its_meaning(self) -> None:
        """The page on configuration can be written from the table."""
        for setting in SETTINGS:
            self.assertTrue(setting.name.startswith("OMNIGATE_"), setting)
            self.assertTrue(setting.meaning.endswith("."), setting)
            self.assertTrue(setting.planes, setting)

    def test_a_secret_has_no_default_and_no_option(self) -> None:
        """A secret is given by the operator, and never on a command line that others can list."""
        for setting in SETTINGS:
            self.assertEqual(setting.default is None, setting.secret, setting)
            self.assertFalse(setting.secret and setting.option, setting)

    def test_no_name_and_no_field_of_a_plane_stands_twice(self) -> None:
        """Each variable has one row, each attribute one variable."""
        names = [setting.name for setting in SETTINGS]
        self.assertEqual(len(set(names)), len(names))
        fields = [(plane, s.field) for s in SETTINGS for plane in s.planes]
        self.assertEqual(len(set(fields)), len(fields))

    def test_every_default_passes_its_own_check(self) -> None:
        """No row refuses what it would take itself."""
        for setting in SETTINGS:
            if setting.default is not None:
                setting.parse(setting.default)

    def test_every_remedy_stands_in_the_fault(self) -> None:
        """Every row but a path refuses a bell character, and says what to give instead."""
        for setting in SETTINGS:
            if setting.name.endswith(("_LISTEN", "_URL", "_TOKEN", "_MS", "_MB", "_HEADERS")):
                error = self.assertRaises(BadValueError, setting.parse, "\a")
                self.assertIn(";", str(error), setting)
