"""A doctor's report may be pasted anywhere: it has no secret in it."""

from __future__ import annotations

import pytest

from headgate.cli.doctor import spark_settings
from headgate.errors import BadArgument
from headgate.spark.doctor.configuration import look_at_settings


@pytest.mark.parametrize("scheme", ["s3a", "wasbs", "hdfs"])
def test_a_secret_in_the_address_of_checkpoints_is_not_printed(scheme: str) -> None:
    location = f"{scheme}://name:s3cr3t@bucket/checkpoints?sig=s3cr3t"
    given = {"spark.sql.streaming.checkpointLocation": location}
    found = "\n".join(map(str, look_at_settings(given.get, local=False)))
    assert "s3cr3t" not in found
    assert f"{scheme}://...@bucket/checkpoints" in found


def test_a_setting_that_is_refused_is_named_without_its_value() -> None:
    with pytest.raises(BadArgument, match=r"hadoop.fs.s3a.secret.key=\.\.\.") as refused:
        spark_settings(None, ("hadoop.fs.s3a.secret.key=s3cr3t",))
    assert "s3cr3t" not in str(refused.value)
