import torch

from semppl.doctor.memory import forget_peak_, free_memory, host_memory, peak_memory

CPU = torch.device("cpu")
MEMINFO = "MemTotal:       8000 kB\nMemFree:        100 kB\nMemAvailable:   6000 kB\n"


def root(tmp_path, **files):
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_machine_says_what_it_has(tmp_path):
    assert host_memory(root(tmp_path)) == (8000 * 1024, 6000 * 1024)


def test_a_container_may_have_less(tmp_path):
    limits = {"sys/fs/cgroup/memory.max": "4096000\n", "sys/fs/cgroup/memory.current": "1000000\n"}
    assert host_memory(root(tmp_path, **limits)) == (4_096_000, 3_096_000)


def test_a_container_of_the_older_kind_that_is_over_its_limit_has_nothing_free(tmp_path):
    folder = "sys/fs/cgroup/memory/memory"
    limits = {f"{folder}.limit_in_bytes": "5000\n", f"{folder}.usage_in_bytes": "6000\n"}
    assert host_memory(root(tmp_path, **limits)) == (5000, 0)


def test_no_limit_is_no_limit(tmp_path):
    limits = {"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "1000000\n"}
    assert host_memory(root(tmp_path, **limits)) == (8000 * 1024, 6000 * 1024)


def test_a_system_without_these_files_is_asked_for_its_pages(tmp_path):
    total, free = host_memory(tmp_path)
    assert total == free > 0


def test_the_peak_is_that_of_the_time_since_it_was_forgotten():
    forget_peak_(CPU)
    before, held, more = peak_memory(CPU), [], 50_000_000
    # once is enough, unless the system does not let a process forget, or takes back pages of files meanwhile
    while peak_memory(CPU) <= before + 0.8 * more:
        assert len(held) < 80
        held.append(torch.ones(more, dtype=torch.uint8))
    assert held
    assert free_memory(CPU) > more * len(held)
