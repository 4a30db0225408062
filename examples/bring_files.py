"""Upload input files, and download what the job wrote."""

from pathlib import Path
from tempfile import TemporaryDirectory

from joblane import Client

with Client.from_env() as client, TemporaryDirectory() as folder:
    data = Path(folder, "data.csv")
    data.write_text("b\na\n")
    job = client.submit(
        ["sh", "-c", "mkdir out; sort in/data.csv - > out/sorted.csv"],
        inputs=[(data, "in/data.csv")],
        outputs=["out/**"],
        stdin="c\n",
    )
    job.wait()
    for file in job.outputs().files:
        print(file.path, file.size)
    job.download(folder)
    print(Path(folder, "out/sorted.csv").read_text(), end="")

# Output:
# out/sorted.csv 6
# a
# b
# c
