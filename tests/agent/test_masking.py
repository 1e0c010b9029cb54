"""Masking: secrets as people write them in commands, what only looks like one, and texts that are made to be slow."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent.masking import mask
from chatfold.agent.messages import ToolCall
from chatfold.agent.progress import tool_step
from chatfold.agent.tools import Outcome
from chatfold.eventlog import Data

SECRET = "hunter2Zx9"
LONG = "hunter2Zx9hunter2Zx9hunter2Zx9hunter2Zx9"

COMMANDS = f"""
export OPENAI_API_KEY={SECRET}
API_KEY="{SECRET} and more" run
PGPASSWORD={SECRET} psql -h db
MYSQL_PWD={SECRET} mysql
AWS_SECRET_ACCESS_KEY={SECRET} aws s3 ls
aws configure set aws_secret_access_key {LONG}
DB_PASS='{SECRET}' ./x
password = "{SECRET}"
SECRET_KEY_BASE={SECRET} rails s
curl -d '{{"user":"bob","password":"{SECRET}"}}' http://x
curl -d "{{\\"password\\":\\"{SECRET}\\"}}" http://x
curl -d 'user=bob&password={SECRET}&x=1' http://x
curl -H "Authorization: Bearer {SECRET}" http://x
curl -H 'authorization: Basic {SECRET}==' http://x
curl -H "Authorization: token {SECRET}" http://x
curl -H 'X-Api-Key: {SECRET}' http://x
curl -H 'Cookie: session={SECRET}; x=1' http://x
curl -u bob:{SECRET} http://x
curl -s --user "bob:{SECRET}" http://x
curl 'https://x/y?api_key={SECRET}&q=1'
http GET x "Authorization:Bearer {SECRET}"
git clone https://bob:{SECRET}@github.com/a/b
git clone https://bob:p@{SECRET}@github.com/a/b
psql postgres://bob:{SECRET}@db:5432/x
mysql -u root -p{SECRET} db
mysqldump -uroot -p'{SECRET}' db > x
mysql --password={SECRET}
sshpass -p {SECRET} ssh a@b
sshpass -p{SECRET} ssh a@b
redis-cli -h x -a {SECRET} ping
docker login -u bob -p {SECRET} reg
gh auth login --token {SECRET}
vault login --client-secret={SECRET}
tool --github-token '{SECRET}' -v
openssl rsa -passin pass:{SECRET}
kubectl create secret generic x --from-literal=password={SECRET}
echo ghp_{LONG} | gh auth login --with-token
echo github_pat_{LONG}
echo glpat-{LONG}
echo sk-ant-api03-{LONG}
echo sk_live_{LONG}
echo xoxb-{LONG}
echo AIza{LONG}
echo hf_{LONG}
echo eyJhbGciOiJI{SECRET}.eyJzdWIiOiIx{SECRET}.{SECRET}
echo PASSWORD="{SECRET}
""".strip().splitlines()

HEREDOCS = [
    f"cat > c.yml <<EOF\nuser: bob\npassword: {SECRET}\nport: 5\nEOF",
    f"cat > key <<EOF\n-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n{SECRET}\n-----END RSA PRIVATE KEY-----\nEOF",
]


@pytest.mark.parametrize("command", [*COMMANDS, *HEREDOCS])
def test_a_secret_in_a_command_is_masked_and_once_is_enough(command: str) -> None:
    hidden = mask(command)
    assert SECRET not in hidden
    assert "•••" in hidden
    assert mask(hidden) == hidden
    outcome = Outcome((Data("json", {"exit_code": 0, "stdout": command, "stderr": ""}),))
    assert SECRET not in tool_step(ToolCall("c1", "exec_shell", {"command": command}, 1), outcome, "r1").text


def test_what_is_around_a_secret_is_left_as_it_is() -> None:
    assert mask(f"A=1 TOKEN={SECRET} ./x --v 'y z'") == "A=1 TOKEN=••• ./x --v 'y z'"
    assert mask(f"curl 'https://x/y?token={SECRET}&q=1'") == "curl 'https://x/y?token=•••&q=1'"
    assert mask(HEREDOCS[0]).splitlines()[2:] == ["password: •••", "port: 5", "EOF"]


HARMLESS = """
ls secrets/ && cat token.txt
grep -r "password" . | head
python train.py --max-tokens 100 --tokenizer gpt2
max_tokens=100 num_tokens: 5
PASSWORD_FILE=/run/secrets/db TOKEN_LIMIT=5 ./x
docker login --password-stdin
docker run -u 1000:1000 img
curl -H "Authorization: Bearer $TOKEN" -u "$USER:$PASS" http://x
tool --token "$TOKEN" --password ${PASSWORD}
PASSWORD=$DB_PASS TOKEN=$(cat token) ./x
cd $PWD && PWD=/x OLDPWD=/y true
mysql -P3306 -h x --protocol=tcp -p db
git clone ssh://git@host:22/x && git clone git@github.com:org/repo.git
curl http://localhost:8080/path?email=a@b.c
curl http://localhost:8080?email=a@b.c
HF_HUB_ENABLE_HF_TRANSFER=1 npm_config_registry=http://x npm i
pip install scikit-learn sk-foo
compass=north bypass=1 author: Bob
ansible-playbook --ask-pass site.yml
pg_dump --no-password mydb
git commit -m "basic training for the bearer of tokens"
kubectl get secret my-secret -o yaml
primary_key=id monkey=5 keyboard=us secretary=bob tokenize=x
sort -k 2 -t : --key=2
echo "12 tests pass: fine"
if [ "$token" == "$other" ]; then exit; fi
""".strip().splitlines()


@pytest.mark.parametrize("command", HARMLESS)
def test_what_is_no_secret_is_not_masked(command: str) -> None:
    assert mask(command) == command


UNITS = """a a- token token= token=" token=' --token --a --a- :// ://a: ://:::@ curl curl_-u_a: mysql mysql_-p bearer eyJaaaaaaaa.
sk-a -----BEGIN -----BEGIN_PRIVATE_KEY----- \\" token=\\" authorization: cookie: pass _pass token_1 xoxb- docker_login redis-cli"""


@pytest.mark.parametrize("unit", [*UNITS.split(), " ", "\n", "token ", 'token: \\"'])
def test_no_text_makes_masking_slow(unit: str) -> None:
    unit = unit.replace("_", " ")
    took = []
    for size in (25_000, 100_000):
        text = (unit * size)[:size]
        began = time.thread_time()
        mask(text)
        took.append(time.thread_time() - began)
    assert took[1] < max(0.5, 12 * took[0])  # four times the text: not sixteen times the time


@given(
    st.lists(
        st.sampled_from(
            ['token="', "'", '"', "\\", "--password ", "://", ":", "@", " ", "x", "=", "curl -u ", "1"]
        )
    )
)
def test_masking_any_text_leaves_a_text_that_is_masked(pieces: list[str]) -> None:
    hidden = mask("".join(pieces))
    assert mask(mask(hidden)) == mask(hidden)
