"""Further log directories as people have met them: packed, damaged, foreign and linked files, odd names, shared places."""

from situation import Situation as S

RUN = "logs/plugins/profile/run"
MAC = r"printf '\000\005\026\007\000\002\000\000Mac OS X        ' >"

SITUATIONS = [
    # ---- files that xprof does not list, or that hide what it would
    S("apple_double_beside_the_profile", "mandiant/macos-UnifiedLogs#2, of profiles: tar of a Mac",
      f"profile {RUN}/h.xplane.pb; {MAC}{RUN}/._h.xplane.pb", finds=["profile-name"], shows=1),
    S("apple_double_alone", "troeger/opensubmit#89: __MACOSX", f"mkdir -p {RUN}; {MAC}{RUN}/._h.xplane.pb",
      finds=["profile-name"]),
    S("apple_double_outside_of_a_run", "mfusepy#27", f"profile {RUN}/h.xplane.pb; mkdir logs/x; {MAC}logs/x/._h.xplane.pb",
      shows=1),
    S("hidden_profile", "rsync's temporary name, kept at a cut connection", f"profile {RUN}/.h.xplane.pb",
      finds=["profile-name"], shows=1),
    S("hidden_profile_of_rsync", "rsync: .NAME.XXXXXX", f"profile {RUN}/.h.xplane.pb.Ab12cD", finds=["profile-name"],
      shows=1),
    S("hidden_profile_beside_another", "rsync", f"profile {RUN}/h.xplane.pb; profile {RUN}/.k.xplane.pb",
      finds=["profile-name"], shows=2),
    S("broken_rank_hides_the_tools", "openxla/xprof#2150: several hosts", f"profile {RUN}/r0.xplane.pb; "
      f"echo '<html>403</html>' >{RUN}/r1.xplane.pb", finds=["profile-unparsable", "run-no-tools"], shows=1),
    S("cut_rank_hides_the_tools", "NVIDIA/TensorRT-LLM#13536", f"profile {RUN}/r0.xplane.pb; cut {RUN}/r1.xplane.pb; "
      f"profile {RUN}/r2.xplane.pb", finds=["profile-truncated", "run-no-tools"], shows=2),
    S("cut_rank_being_written", "openxla/xprof#905", f"profile {RUN}/r0.xplane.pb; cut {RUN}/r1.xplane.pb; "
      f"fresh {RUN}/r1.xplane.pb", finds=["profile-truncated", "run-no-tools"], shows=1, honest=True),
    S("dangling_rank_hides_the_tools", "pytorch/kineto#331", f"profile {RUN}/r0.xplane.pb; "
      f"ln -s ../gone/r1.xplane.pb {RUN}/r1.xplane.pb", finds=["profile-unreadable", "run-no-tools"], shows=1, honest=True),
    # ---- packed
    S("compressed_xz", "a job's epilogue: xz", f"profile {RUN}/h.xplane.pb; xz {RUN}/h.xplane.pb", finds=["profile-name"],
      shows=1),
    S("compressed_bzip2", "a job's epilogue", f"profile {RUN}/h.xplane.pb; bzip2 {RUN}/h.xplane.pb",
      finds=["profile-name"], shows=1),
    S("compressed_zstd", "a job's epilogue", f"profile {RUN}/h.xplane.pb; zstd -q --rm {RUN}/h.xplane.pb",
      finds=["profile-name"], shows=1),
    S("compressed_and_misplaced", "tensorflow/tensorboard#6940", "profile logs/h.xplane.pb; gzip logs/h.xplane.pb",
      finds=["profile-name"], shows=1),
    S("compressed_beside_another_host", "a job's epilogue", f"profile {RUN}/a.xplane.pb; profile {RUN}/b.xplane.pb; "
      f"gzip {RUN}/b.xplane.pb", finds=["profile-name"], shows=2),
    S("compressed_and_unpacked", "gzip -k", f"profile {RUN}/h.xplane.pb; gzip -k {RUN}/h.xplane.pb", shows=1),
    S("compressed_under_the_plain_name", "gsutil cp -Z, then a download without decoding",
      f"profile {RUN}/h.xplane.pb; gzip {RUN}/h.xplane.pb; mv {RUN}/h.xplane.pb.gz {RUN}/h.xplane.pb",
      finds=["profile-unparsable"], honest=True),
    S("compressed_events_unpacked", "lllyasviel/ControlNet#727", "events logs; gzip -k logs/events.out.tfevents.1700000000.host.1.0"),
    S("tar_of_the_log_directory", "meta-pytorch/torchtune#2323: copied from a cluster",
      "profile job/plugins/profile/run/h.xplane.pb; mkdir logs; tar -czf logs/job.tar.gz -C job . && rm -r job",
      finds=["logdir-empty"], shows=1),
    S("zip_of_the_log_directory", "actions/download-artifact",
      "profile job/plugins/profile/run/h.xplane.pb; mkdir logs; python3 -m zipfile -c logs/job.zip job/plugins; rm -r job",
      finds=["logdir-empty"], shows=1),
    S("tar_beside_a_shown_run", "a backup", f"profile {RUN}/h.xplane.pb; tar -cf logs/old.tar logs/plugins", shows=1),
    S("zip_under_the_name_of_a_profile", "actions/download-artifact",
      rf"mkdir -p {RUN}; printf 'PK\003\004xxxx' >{RUN}/h.xplane.pb", finds=["profile-unparsable"], honest=True),
    # ---- damaged
    S("nuls_at_the_end", "containerd/containerd#1699, of profiles: a machine that stopped",
      f"large {RUN}/h.xplane.pb; truncate -s +8192 {RUN}/h.xplane.pb", finds=["profile-damaged"], honest=True),
    S("nuls_in_the_middle", "containerd/containerd#1699, of profiles", f"large {RUN}/h.xplane.pb; nuls {RUN}/h.xplane.pb 16384 16384",
      finds=["profile-damaged"], honest=True),
    S("nothing_but_nuls", "containerd/containerd#1699, of profiles", f"mkdir -p {RUN}; truncate -s 20000 {RUN}/h.xplane.pb",
      finds=["profile-damaged"], honest=True),
    S("nuls_beside_a_whole_one", "containerd/containerd#1699, of profiles",
      f"profile {RUN}/a.xplane.pb; large {RUN}/h.xplane.pb; nuls {RUN}/h.xplane.pb 16384 16384",
      finds=["profile-damaged", "run-no-tools"], shows=1),
    S("line_ends_of_a_terminal", "kubernetes/kubectl#521: kubectl exec -t … cat",
      f"large {RUN}/h.xplane.pb; crlf {RUN}/h.xplane.pb", finds=["profile-damaged"], honest=True),
    S("bytes_read_as_text", "a notebook's download as text", f"large {RUN}/h.xplane.pb; printf '\\172\\002\\377\\377\\172\\002\\377\\377' "
      f">>{RUN}/h.xplane.pb; as_text {RUN}/h.xplane.pb", finds=["profile-damaged"], honest=True),
    S("pointer_of_git_lfs", "a repository with profiles in LFS", f"mkdir -p {RUN}; printf 'version https://git-lfs.github.com/spec/v1\\n"
      f"oid sha256:0\\nsize 9\\n' >{RUN}/h.xplane.pb", finds=["profile-unparsable"], honest=True),
    S("events_with_line_ends_of_a_terminal", "kubernetes/kubectl#521",
      "events logs; crlf logs/events.out.tfevents.1700000000.host.1.0", finds=["events-corrupt"], honest=True),
    S("events_with_nuls_at_the_end", "containerd/containerd#1699",
      "events logs; truncate -s +8192 logs/events.out.tfevents.1700000000.host.1.0", finds=["events-corrupt"], honest=True),
    S("events_of_git_lfs", "a repository with events files in LFS", "mkdir logs; printf 'version https://git-lfs.github.com/"
      "spec/v1\\noid sha256:0\\nsize 9\\n' >logs/events.out.tfevents.1.h", finds=["events-corrupt"], honest=True),
    # ---- other formats
    S("chrome_trace_of_a_rank", "meta-pytorch/torchtune#2323", "mkdir -p logs/iteration_10; "
      "echo '{\"schemaVersion\": 1}' | gzip >logs/iteration_10/rank0_trace.json.gz", finds=["logdir-empty"], honest=True),
    S("chrome_trace_of_any_name", "pytorch/pytorch#95460", "mkdir logs; echo '{\"traceEvents\": []}' >logs/out.json",
      finds=["logdir-empty"], honest=True),
    S("pytorch_trace_beside_a_profile", "pytorch/kineto#605",
      f"profile {RUN}/h.xplane.pb; echo '{{}}' >logs/h.1.pt.trace.json", shows=1),
    S("perfetto_trace_of_jax", "jax: create_perfetto_trace",
      f"profile {RUN}/h.xplane.pb; echo x | gzip >{RUN}/perfetto_trace.json.gz", shows=1),
    # ---- links
    S("relative_link_to_a_misplaced_profile", "tensorflow/tensorflow#2140",
      "profile store/one.pb; mkdir -p logs/run; ln -s ../../store/one.pb logs/run/h.xplane.pb; ln -s run/h.xplane.pb "
      "logs/h.xplane.pb", finds=["profile-misplaced"], shows=1),
    S("relative_link_to_a_directory_of_profiles", "tensorflow/tensorboard#5438",
      "profile store/day/h.xplane.pb; mkdir -p logs; ln -s ../store/day logs/day", finds=["profile-misplaced"], shows=1),
    S("link_beside_the_run_it_leads_to", "pytorch/kineto#331: latest.xplane.pb",
      f"profile {RUN}/h.xplane.pb; ln -s plugins/profile/run/h.xplane.pb logs/latest.xplane.pb", shows=1),
    S("hard_link_outside_of_the_run", "rsync --link-dest", f"profile {RUN}/h.xplane.pb; ln {RUN}/h.xplane.pb logs/h.xplane.pb",
      shows=1),
    # ---- directories
    S("date_as_directories", "a job that writes %Y/%m/%d", "for d in 25 26; do profile logs/plugins/profile/2023/11/$d/h.xplane.pb; "
      "done", finds=["profile-misplaced"], shows=2),
    S("date_as_directories_one", "a job that writes %Y/%m_%d", "profile logs/plugins/profile/2023/11_25/h.xplane.pb",
      finds=["profile-misplaced"], shows=1),
    S("date_as_directories_outside", "hydra: outputs/DATE/TIME", "for t in 10-00 11-00; do profile "
      "logs/2023-11-25/$t/h.xplane.pb; done", finds=["profile-misplaced"], shows=2),
    S("experiments_below_profile", "openxla/xprof#627", "for e in a b; do profile logs/plugins/profile/$e/seed1/x/h.xplane.pb; done",
      finds=["profile-misplaced"], shows=2),
    S("directory_named_as_an_events_file", "actions/upload-artifact: a directory for each file",
      "events logs/events.out.tfevents.1.h events.out.tfevents.1.h"),
    S("directory_tfevents", "a directory `tfevents` for all events files", f"events logs/tfevents; profile {RUN}/h.xplane.pb",
      shows=1),
    # ---- places that others may change
    S("every_user_may_write", "docker run -v: chmod -R 777", "profile logs/plugin/profile/run/h.xplane.pb; chmod -R 777 logs",
      finds=["profile-misspelt", "commands-withheld"], honest=True),
    S("another_user_owns_it", "tensorflow/tensorboard#4044, the other way",
      "profile logs/plugin/profile/run/h.xplane.pb; chown -R 65534 logs", finds=["profile-misspelt", "commands-withheld"],
      honest=True),
    S("sticky_log_directory", "a shared scratch", "profile logs/plugin/profile/run/h.xplane.pb; chmod 1777 logs",
      finds=["profile-misspelt", "commands-withheld"], honest=True),
    S("sticky_directory_above", "a log directory in /tmp", "profile tmp/logs/plugin/profile/run/h.xplane.pb; chmod 1777 tmp",
      logdir="tmp/logs", finds=["profile-misspelt"], shows=1),
    S("link_of_another_user_above", "a shared scratch", "profile real/logs/plugin/profile/run/h.xplane.pb; ln -s real link; "
      "chown -h 65534 link", logdir="link/logs", finds=["profile-misspelt", "commands-withheld"], honest=True),
]
