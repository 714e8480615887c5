// SPDX-License-Identifier: Apache-2.0
//
// Command lines: secrets are masked, all other text stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "writer/base/arguments.h"
#include "writer/base/secrets.h"

namespace tbprof {
namespace {

using Words = std::vector<std::string>;

TEST(MaskSecrets, EachForm_IsMasked) {
  EXPECT_EQ(MaskSecrets({"run", "--token=abc"}), (Words{"run", "--token=***"}));
  EXPECT_EQ(MaskSecrets({"run", "--token", "abc", "x"}), (Words{"run", "--token", "***", "x"}));
  EXPECT_EQ(MaskSecrets({"env", "HF_TOKEN=abc", "run"}), (Words{"env", "HF_TOKEN=***", "run"}));
  EXPECT_EQ(MaskSecrets({"--WANDB_API_KEY=a=b=c"}), (Words{"--WANDB_API_KEY=***"}));
  EXPECT_EQ(MaskSecrets({"--api-key", "k"}), (Words{"--api-key", "***"}));
  EXPECT_EQ(MaskSecrets({"--password="}), (Words{"--password=***"}));
  EXPECT_EQ(MaskSecrets({"mysql", "--user=root", "--passwd=x"}), (Words{"mysql", "--user=root", "--passwd=***"}));
}

TEST(MaskSecrets, DashedWordBehindAnOption_IsTheNextOption) {
  EXPECT_EQ(MaskSecrets({"--password", "--verbose", "x"}), (Words{"--password", "--verbose", "x"}));
  EXPECT_EQ(MaskSecrets({"--password", "--token", "x"}), (Words{"--password", "--token", "***"}));
  EXPECT_EQ(MaskSecrets({"--password"}), (Words{"--password"}));
}

TEST(MaskSecrets, SecretInsideAWord_IsMasked) {
  EXPECT_EQ(MaskSecrets({"--db=postgres://me:pw@host/db"}), (Words{"--db=postgres://me:***@host/db"}));
  EXPECT_EQ(MaskSecrets({"https://me:p@w@host:8080/a@b"}), (Words{"https://me:***@host:8080/a@b"}));
  EXPECT_EQ(MaskSecrets({"https://me@host:8080/a:b@c", "s3://bucket/a"}),
            (Words{"https://me@host:8080/a:b@c", "s3://bucket/a"}));
  EXPECT_EQ(MaskSecrets({"-H", "Authorization: Bearer x"}), (Words{"-H", "Authorization: ***"}));
  EXPECT_EQ(MaskSecrets({"-H", "X-Api-Key: x"}), (Words{"-H", "X-Api-Key: ***"}));
  EXPECT_EQ(MaskSecrets({"hf_abcdefghijklmnopqrstuvwxyz"}), (Words{"***"}));
  EXPECT_EQ(MaskSecrets({"--login=ghp_abcdefghijklmnopqrstuvwxyz", "sk-learn", "note: x"}),
            (Words{"--login=***", "sk-learn", "note: x"}));
}

TEST(MaskSecrets, PinsAndSortKeys_AreKept) {
  const Words words = {"--pin=on", "--cpu-pin=0-3", "--pin-memory=true", "--sort_key=loss", "--session=night"};
  EXPECT_EQ(MaskSecrets(words), words);
}

TEST(MaskSecrets, OrdinaryWords_AreKept) {
  const Words words = {"python", "train.py", "--lr=0.1", "--name", "x", "", "-", "--", "=", "a=b"};
  EXPECT_EQ(MaskSecrets(words), words);
  EXPECT_TRUE(MaskSecrets({}).empty());
}

// Each line contains `S3cr3t` at least once; `kept` is the text that must stay.
struct SecretLine {
  Words words;
  std::string kept;
};

TEST(MaskSecrets, SecretLines_NothingOfThemIsLeft) {
  const SecretLine lines[] = {
      // Options and variables.
      {{"train.py", "--db-pass=S3cr3t", "--lr=1"}, "train.py --db-pass=*** --lr=1"},
      {{"train.py", "--db-pass", "S3cr3t", "--lr", "1"}, "--lr 1"},
      {{"train.py", "--pass", "S3cr3t"}, "--pass"},
      {{"env", "PASS=S3cr3t", "train.py"}, "train.py"},
      {{"env", "DB_PASS=S3cr3t", "train.py"}, "DB_PASS="},
      {{"env", "dbpass=S3cr3t"}, "dbpass="},
      {{"env", "PGPASSWORD=S3cr3t", "psql"}, "psql"},
      {{"env", "SSHPASS=S3cr3t", "MYSQL_PWD=S3cr3t"}, "MYSQL_PWD="},
      {{"train.py", "--wandb-key=S3cr3t"}, "--wandb-key="},
      {{"train.py", "--wandb-key", "S3cr3t"}, "--wandb-key"},
      {{"train.py", "--auth=S3cr3t"}, "--auth="},
      {{"train.py", "--auth", "S3cr3t", "--x"}, "--x"},
      {{"train.py", "--pat", "S3cr3t"}, "--pat"},
      {{"train.py", "--session-id=S3cr3t", "--lr=1"}, "--session-id=*** --lr=1"},
      {{"train.py", "--sas=S3cr3t", "--user-pin", "S3cr3t"}, "--sas="},
      {{"train.py", "--pin=S3cr3t"}, "--pin="},
      {{"env", "KAGGLE_KEY=S3cr3t", "ACME_KEY=S3cr3t"}, "KAGGLE_KEY=*** ACME_KEY="},
      {{"train.py", "--bearer=S3cr3t"}, "--bearer="},
      {{"train.py", "--oauth2-bearer", "S3cr3t"}, "--oauth2-bearer"},
      {{"train.py", "passphrase=S3cr3t"}, "passphrase="},
      {{"train.py", "--passphrase", "S3cr3t pass phrase"}, "--passphrase"},
      {{"train.py", "--PassPhrase=S3cr3t words of it"}, "--PassPhrase="},
      {{"java", "-Dspring.datasource.password=S3cr3t", "-jar", "a.jar"}, "-jar a.jar"},
      {{"java", "-DdbPassword=S3cr3t"}, "java"},
      {{"train.py", "hydra.logger.api_key=S3cr3t", "model.dim=3"}, "model.dim=3"},
      {{"train.py", "--hfToken=S3cr3t", "--HF_TOKEN_2=S3cr3t"}, "--hfToken="},
      {{"train.py", "--client-secret", "S3cr3t", "--client-id", "7"}, "--client-id 7"},
      {{"AWS_SECRET_ACCESS_KEY=S3cr3t/x+y==", "AWS_ACCESS_KEY_ID=S3cr3t"}, "AWS_ACCESS_KEY_ID="},
      {{"WANDB_API_KEY=S3cr3t", "GITHUB_TOKEN=S3cr3t", "OPENAI_API_KEY=S3cr3t"}, "OPENAI_API_KEY="},
      {{"GITHUB_PAT=S3cr3t", "NPM_AUTH=S3cr3t", "X_JWT=S3cr3t"}, "X_JWT="},
      {{"aws", "configure", "set", "aws_secret_access_key", "S3cr3t/k"}, "aws configure set aws_secret_access_key"},
      {{"npm", "config", "set", "//registry.npmjs.org/:_authToken", "S3cr3t"}, "npm config set"},
      {{"npm", "--//registry.npmjs.org/:_authToken=S3cr3t"}, "registry.npmjs.org"},
      {{"git", "config", "user.password", "S3cr3t"}, "user.password"},
      // Variables passed on to other programs.
      {{"docker", "run", "-e", "DB_PASS=S3cr3t", "image"}, "image"},
      {{"docker", "run", "-eDB_PASS=S3cr3t", "image"}, "image"},
      {{"docker", "run", "--env=DB_PASS=S3cr3t and more", "image"}, "image"},
      {{"docker", "build", "--build-arg", "HF_TOKEN=S3cr3t", "."}, "--build-arg"},
      {{"helm", "install", "--set", "a.b=1,db.password=S3cr3t,c=2"}, "a.b=1"},
      {{"kubectl", "create", "secret", "generic", "x", "--from-literal=password=S3cr3t"}, "kubectl create"},
      {{"mount", "-o", "username=me,password=S3cr3t,rw", "//h/s"}, "rw"},
      // URLs.
      {{"--db=postgres://me:S3cr3t@host/db?sslmode=require"}, "@host/db?sslmode=require"},
      {{"postgres://me:password-S3cr3t@host/db?connect_timeout=3"}, "@host/db?connect_timeout=3"},
      {{"postgres://token:S3cr3t@host/db?a=1&b=2"}, "@host/db?a=1&b=2"},
      {{"postgres://me:p/S3cr3t@host/db"}, "@host/db"},
      {{"redis://:S3cr3t@host:6379/0"}, "@host:6379/0"},
      {{"mongodb+srv://me:S3cr3t@h/db?retryWrites=true&w=majority"}, "@h/db?retryWrites=true&w=majority"},
      {{"https://h/x?token=S3cr3t"}, "https://h/x?token="},
      {{"https://h/x?user=me&password=S3cr3t&next=1"}, "&next=1"},
      {{"https://h/x?user=me&PASSWORD=S3cr3t#part"}, "#part"},
      {{"jdbc:mysql://h/db?user=me&password=S3cr3t"}, "user=me"},
      {{"https://h/blob?sv=2020&sig=S3cr3t%3D&se=9"}, "&se=9"},
      {{"https://h/o?X-Amz-Signature=S3cr3t&X-Amz-Expires=60"}, "X-Amz-Expires=60"},
      {{"https://me:S3cr3t@a/x,https://me:S3cr3t@b/y"}, "@b/y"},
      {{"https://a1b2c3d4e5f6S3cr3tg7@github.com/a/b"}, "@github.com/a/b"},
      {{"https://hooks.slack.com/services/T0/B0/S3cr3t"}, "hooks.slack.com"},
      {{"--dsn", "me:S3cr3t@tcp(127.0.0.1:3306)/db"}, "@tcp(127.0.0.1:3306)/db"},
      // Separators.
      {{"--dsn=Server=h;User=me;Password=S3cr3t;Timeout=3"}, "Timeout=3"},
      {{"--dsn", "Server=h; Pwd=S3cr3t; Timeout=3"}, "Timeout=3"},
      {{"DefaultEndpointsProtocol=https;AccountName=x;AccountKey=S3cr3t+/a==;EndpointSuffix=y"}, "EndpointSuffix=y"},
      {{"psql", "host=h user=me password=S3cr3t dbname=d"}, "dbname=d"},
      {{"psql", "host=h password='S3cr3t two' dbname=d"}, "dbname=d"},
      // Headers.
      {{"curl", "--header", "Authorization: Bearer S3cr3t", "https://h"}, "https://h"},
      {{"curl", "--header=Authorization: Bearer S3cr3t", "https://h"}, "https://h"},
      {{"curl", "-H", "authorization:Basic S3cr3t"}, "authorization:"},
      {{"curl", "-HAuthorization: Token S3cr3t"}, "Authorization"},
      {{"curl", "-H", "X-Api-Key: S3cr3t", "-H", "Cookie: a=S3cr3t; b=S3cr3t"}, "X-Api-Key"},
      {{"curl", "-H", "PRIVATE-TOKEN: S3cr3t"}, "PRIVATE-TOKEN"},
      {{"git", "-c", "http.extraheader=AUTHORIZATION: basic S3cr3t", "clone"}, "clone"},
      {{"curl", "-u", "me:S3cr3t", "https://h"}, "-u me:*** https://h"},
      {{"curl", "-ume:S3cr3t", "https://h"}, "https://h"},
      {{"curl", "--user=me:S3cr3t", "--proxy-user", "me:S3cr3t"}, "--proxy-user"},
      {{"skopeo", "copy", "--src-creds=me:S3cr3t"}, "--src-creds="},
      // Shells and code.
      {{"sh", "-c", "DB_PASS=S3cr3t python train.py --lr 1"}, "python train.py --lr 1"},
      {{"sh", "-c", "DB_PASS='S3cr3t two' python train.py"}, "python train.py"},
      {{"sh", "-c", "cd /x;export TOKEN=\"S3cr3t\";python train.py"}, "python train.py"},
      {{"bash", "-lc", "train.py --db-pass S3cr3t --lr 1"}, "--lr 1"},
      {{"bash", "-ec", "train.py --db-pass 'S3cr3t two' --lr 1"}, "--lr 1"},
      {{"sh", "-c", "curl -H \"Authorization: Bearer S3cr3t\" https://h/x"}, "https://h/x"},
      {{"sh", "-c", "curl -u me:S3cr3t https://h/x | sh"}, "https://h/x | sh"},
      {{"sh", "-c", "mysql -uroot -pS3cr3t db"}, "-uroot"},
      {{"sh", "-c", "sh -c 'train.py --token S3cr3t'"}, "train.py --token"},
      {{"ssh", "host", "cd x && PASS=S3cr3t ./run --auth S3cr3t"}, "cd x &&"},
      {{"sbatch", "--wrap=train.py --api-key S3cr3t --lr 1"}, "--lr 1"},
      {{"train.py", "{\"db\": {\"password\": \"S3cr3t, \\\" and\", \"port\": 1}}"}, "\"port\": 1"},
      {{"train.py", "--config={\"api_key\":\"S3cr3t\",\"lr\":1}"}, "\"lr\":1"},
      {{"sh", "-c", "run \"{\\\"token\\\": \\\"S3cr3t\\\", \\\"lr\\\": 1}\""},
       "{\\\"token\\\": \\\"***\\\", \\\"lr\\\": 1}"},
      {{"python", "-c", "import os; os.environ['HF_TOKEN'] = 'S3cr3t'; run(lr=1)"}, "run(lr=1)"},
      {{"python", "-c", "login(token=\"S3cr3t\", lr=1)"}, "lr=1"},
      {{"python", "-c", "h = {'Authorization': f'Bearer S3cr3t'}; run()"}, "run()"},
      {{"train.py", "db: {user: me, password: S3cr3t, port: 1}"}, "port: 1"},
      // Programs with a one-letter option for the password.
      {{"mysql", "-uroot", "-pS3cr3t", "db"}, "db"},
      {{"sshpass", "-p", "S3cr3t", "ssh", "h"}, "ssh h"},
      {{"redis-cli", "-a", "S3cr3t", "ping"}, "ping"},
      {{"docker", "login", "-u", "me", "-p", "S3cr3t", "registry"}, "registry"},
      {{"openssl", "enc", "-pass", "pass:S3cr3t", "-in", "x"}, "-in x"},
      {{"wandb", "login", "S3cr3t"}, "wandb login"},
      {{"sudo", "mysql", "-pS3cr3t"}, "sudo mysql"},
  };
  EXPECT_GE(std::size(lines), 90u);
  for (const SecretLine& line : lines) {
    const Words masked = MaskSecrets(line.words);
    const std::string text = CommandLine(masked);
    EXPECT_THAT(absl::StrJoin(masked, " "), testing::Not(testing::HasSubstr("S3cr3t"))) << CommandLine(line.words);
    EXPECT_TRUE(text.find(line.kept) != std::string::npos ||
                absl::StrJoin(masked, " ").find(line.kept) != std::string::npos)
        << CommandLine(line.words) << "\n  became " << text;
    EXPECT_EQ(masked.size(), line.words.size());
    EXPECT_EQ(MaskSecrets(masked), masked) << "masked twice";
  }
}

// The tokens are composed at run time, so that no secret scanner reports this file.
TEST(MaskSecrets, KnownTokens_AreMaskedAnywhere) {
  const std::string body = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
  for (const std::string prefix : {"hf_", "ghp_",
                                   "github_"
                                   "pat_",
                                   "glpat-", "sk-",
                                   "sk-"
                                   "proj-",
                                   "xoxb-", "xoxp-", "AIza", "ya29.", "npm_", "nvapi-", "gsk_", "hvs."}) {
    const std::string token = prefix + body;
    EXPECT_EQ(MaskSecrets({"run", token, "x"}), (Words{"run", "***", "x"})) << prefix;
    EXPECT_EQ(MaskSecrets({"--x=" + token}), (Words{"--x=***"})) << prefix;
    EXPECT_EQ(MaskSecrets({"sh", "-c", "run " + token + " | tee x"}), (Words{"sh", "-c", "run *** | tee x"})) << prefix;
    EXPECT_EQ(MaskSecrets({"https://h/" + token + "/x"}), (Words{"https://h/***/x"})) << prefix;
  }
  EXPECT_EQ(MaskSecrets({"AKIA"
                         "IOSFODNN7EXAMPLE"}),
            (Words{"***"}));
  const Words key = MaskSecrets({"run",
                                 "-----BEGIN RSA PRIVATE "
                                 "KEY-----\nabcd\n-----END RSA PRIVATE "
                                 "KEY-----"});
  EXPECT_THAT(key[1], testing::Not(testing::HasSubstr("abcd")));
}

TEST(MaskSecrets, HarmlessLines_AreShownWhole) {
  const Words lines[] = {
      {"train.py", "--pass-through", "x", "--passthrough=y", "--pass-through=z"},
      {"train.py", "--path", "/a/b", "--path=/a", "--patience", "3", "--patience=3", "--pattern=*.txt"},
      {"train.py", "--author", "me", "--author=me", "--authority=x", "--batch", "32", "--batch=32"},
      {"env", "PATH=/usr/bin:/bin", "PYTHONPATH=/x", "PWD=/work", "OLDPWD=/", "LD_LIBRARY_PATH=/x:/y"},
      {"train.py", "--tokenizer=gpt2", "--tokenizer", "gpt2", "--tokenizer-path", "/x"},
      {"train.py", "--max-tokens=512", "--max_new_tokens", "64", "--num-tokens=3", "--tokens-per-batch", "4096"},
      {"train.py", "--pad-token-id=0", "--eos_token", "</s>", "--token-dropout=0.1", "--tokens=512"},
      {"train.py", "--token-limit", "5", "--max-tokens-per-gpu=9216", "--image-token=<image>"},
      {"train.py", "--passes=3", "--num-pass", "2", "--single-pass=yes", "--bypass=x", "--compass", "north"},
      {"ffmpeg", "-i", "a.mp4", "-pass", "1", "-passlogfile", "log", "-b:v", "1M", "out.mp4"},
      {"train.py", "--sort-key=loss", "--key", "id", "--image-key", "jpg", "--primary-key=a_b", "KEY=value"},
      {"sort", "-k", "2", "--key=2,3", "--keyboard=us", "--monkey", "x", "--key-frames=3"},
      {"ssh", "-i", "/home/me/.ssh/id_rsa", "me@host:/path", "git@github.com:a/b.git"},
      {"train.py", "--password-file=/run/secrets/db", "--token-file", "/x", "--credentials=/a/key.json"},
      {"docker", "login", "--password-stdin", "registry.io", "--username", "me"},
      {"docker", "run", "-v", "/run/secret:/run/secret", "-u", "1000:1000", "--user=0:0", "a/b:tag@sha256:0a1b"},
      {"docker", "run", "-p", "8080:80", "-e", "LR=0.1", "image:latest", "python", "x.py"},
      {"ansible-playbook", "--ask-become-pass", "site.yml", "--ask-pass", "x.yml"},
      {"train.py", "--use-auth-token", "data", "--use_auth_token=true", "--auth=none", "--auth=basic", "--auth-type=x"},
      {"https://host:8080/a:b@c?x=1&y=2#z", "s3://bucket/a@b:c", "https://me@host/x", "ssh://git@host:22/a"},
      {"jdbc:mysql://h:3306/db?user=me&useSSL=true", "mailto:me@host.org", "gs://b/token/x?page=2"},
      {"train.py", "lr=0.1", "model.layers=3", "+trainer.devices=[0,1]", "--layers", "1:2", "a::b", "x:y", "{a: 1}"},
      {"sh", "-c", "cd /x && python train.py --lr 0.1 > log 2>&1; echo \"done: $?\""},
      {"sh", "-c", "train.py --token $HF_TOKEN --db-pass=${DB_PASS} --x"},
      {"python", "-c", "x = {'a': 1}; print(x['a']); y = x if x else 3; z = (1, 2)"},
      {"python", "-c", "import getpass; from auth import author; print('token count', len(tokens))"},
      {"python", "-u", "train.py", "--seed", "3", "--name", "sk-learn-pipeline", "--repo=hf_transfer_enabled_dataset"},
      {"git", "commit", "-m", "fix the password prompt of the token dialog", "--author", "A <a@b.c>"},
      {"git", "checkout", "0123456789abcdef0123456789abcdef01234567",
       "--commit=0123456789abcdef0123456789abcdef01234567"},
      {"torchrun", "--nproc-per-node=8", "--rdzv-endpoint=host:29500", "--rdzv-id", "job7", "train.py"},
      {"srun", "-p", "gpu", "-u", "train.py", "--partition=gpu", "--export=ALL,LR=1"},
      {"mysql", "-u", "root", "--protocol=tcp", "db"},
      {"tar", "-czf", "pass.tar.gz", "password/", "secret.txt", "--exclude=token"},
      {"make", "-j2", "CC=gcc", "CFLAGS=-O2 -g", "PREFIX=/usr"},
      {"rsync", "-a", "host::module/x", "user@host:dir/", "--passive"},
      {"convert", "--credential-helper=store", "--secret-manager=aws", "--api-key-env=KEY", "--token-type=bpe"},
  };
  size_t words = 0;
  for (const Words& line : lines) {
    EXPECT_EQ(MaskSecrets(line), line) << CommandLine(line);
    words += line.size();
  }
  EXPECT_GE(words, 150u);
}

TEST(MaskSecrets, HostileText_EndsAndStaysText) {
  const std::string pieces[] = {"password", "=",    ":",       "\"", "'",           "\\", " ",  "://", "@",
                                "?",        "&",    ";",       "$(", "{",           "",   "-u", "-c",  "sh",
                                "token",    "\xff", "Bearer ", "\n", "-----BEGIN ", "=~", ":="};
  uint64_t state = 7;
  for (int round = 0; round < 20'000; ++round) {
    Words words;
    for (int word = 0; word < 3; ++word) {
      std::string text;
      for (int i = 0; i < 6; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        text += pieces[(state >> 33) % std::size(pieces)];
      }
      words.push_back(text);
    }
    EXPECT_EQ(MaskSecrets(words).size(), words.size());
  }
  for (const std::string piece : {"password=", "a:", "\"", "://", "sh -c '", "token: ", "-u a:b ", "x=\\\""}) {
    std::string text;
    while (text.size() < 100'000) text += piece;
    EXPECT_EQ(MaskSecrets({"sh", "-c", text}).size(), 3u);
    EXPECT_EQ(MaskSecrets({text}).size(), 1u);
  }
}

}  // namespace
}  // namespace tbprof
