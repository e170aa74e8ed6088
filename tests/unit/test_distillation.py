"""Trajectories, samples and the distillation loss. Expected values computed by hand where numbers stand."""

import gzip
import json
import math
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
import yaml
from conftest import REPOSITORY, toy_budgets
from tensordict import TensorDict
from verl.workers.utils.losses import sft_loss

from tamtrl.distillation.distil import require_same_vocabulary, samples
from tamtrl.distillation.launch import verl_config
from tamtrl.distillation.loss import forward_kl, forward_kl_top_k, top_k
from tamtrl.distillation.samples import TurnDataset, replay
from tamtrl.distillation.trainer import KnowledgeDistillation
from tamtrl.distillation.trajectories import after_thinking, keep_correct
from tamtrl.errors import UserError
from tamtrl.evaluation.engine import Failed
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.settings import DistillationRun, Resources
from tamtrl.stored import build
from tamtrl.tasks import toy
from tamtrl.tasks.example import ExampleFile, write_examples

TOY = str(REPOSITORY / "models" / "toy")

# -- the loss ----------------------------------------------------------------------------------------------------------


def logits(*probabilities: float) -> torch.Tensor:
    return torch.tensor([probabilities]).log()


def test_forward_kl_by_hand():
    # 0.5 ln(0.5 / 0.25) + 0.5 ln(0.5 / 0.75)
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert forward_kl(logits(0.5, 0.5), logits(0.25, 0.75)).item() == pytest.approx(expected, rel=1e-5)
    # at T = 2 the student is (0.5, sqrt(0.75)) / sum = (0.36603, 0.63397); times T^2
    expected = 4 * (0.5 * math.log(0.5 / 0.366025) + 0.5 * math.log(0.5 / 0.633975))
    assert forward_kl(logits(0.5, 0.5), logits(0.25, 0.75), 2.0).item() == pytest.approx(expected, rel=1e-4)
    # a shift of logits changes nothing, and a teacher has nothing to tell its equal
    assert forward_kl(logits(0.2, 0.8) + 7, logits(0.2, 0.8)).item() == pytest.approx(0, abs=1e-6)


def test_top_k_by_hand():
    """The two likeliest of four and "any other": KL over (0.5, 0.3, 0.2) against (0.4, 0.2, 0.4)."""
    teacher, student = logits(0.3, 0.15, 0.5, 0.05), logits(0.2, 0.3, 0.4, 0.1)
    ids, log_probs = top_k(teacher, 2)
    assert ids.tolist() == [[2, 0]] and log_probs.exp().tolist()[0] == pytest.approx([0.5, 0.3])
    expected = 0.5 * math.log(0.5 / 0.4) + 0.3 * math.log(0.3 / 0.2) + 0.2 * math.log(0.2 / 0.4)
    assert forward_kl_top_k(ids, log_probs, student).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_top_k_is_a_lower_bound_and_exact_with_every_token(temperature):
    generator = torch.Generator().manual_seed(0)
    teacher, student = (3 * torch.randn(50, 12, generator=generator) for _ in range(2))
    exact = forward_kl(teacher, student, temperature)
    previous = torch.zeros(50)
    for k in (1, 4, 8, 12):
        value = forward_kl_top_k(*top_k(teacher, k, temperature), student, temperature)
        assert (value >= previous - 1e-5).all() and (value <= exact + 1e-5).all()
        previous = value
    assert torch.allclose(previous, exact, atol=1e-4)


def test_top_k_gradients_are_finite_even_without_a_tail():
    student = torch.randn(3, 4, requires_grad=True)
    forward_kl_top_k(*top_k(torch.tensor([[90.0, 0, 0, 0]] * 3), 4), student).sum().backward()
    assert student.grad.isfinite().all()


# -- samples -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory, toy_tokenizer):
    """Three questions with made-up trajectories: the second question's answer is wrong, the third's is there twice."""
    folder = tmp_path_factory.mktemp("stored")
    write_examples(folder / "train.parquet", toy.generate("train", 3, 6, seed=0))
    prompts = Prompts(toy_tokenizer, "brief")
    end = [toy_tokenizer.eos_token_id]
    records = []
    for document, example in enumerate(ExampleFile(folder / "train.parquet")):
        answer = example.answers[0] if document != 1 else "nothing"
        memories = [prompts.encode(f"The boss of Ada is {name} .") + end for name in ("Bea", "Cal", "Dan")]
        turns = [*memories, prompts.encode(f"\\boxed{{ {answer} }}") + end]
        for sample in range(2):
            different = [] if document == 2 else [memories[sample], *turns[1:]]
            records.append({"document": document, "sample": sample, "turns": different or turns, "error": None})
    records[1] |= {"turns": [], "error": "no room"}
    for shard in range(2):
        with gzip.open(folder / f"shard{shard}.jsonl.gz", "wt") as stream:
            stream.writelines(json.dumps(r) + "\n" for r in records if r["document"] % 2 == shard)
    return folder


def keep(folder, name="a model"):
    said = []
    shards = [folder / "shard0.jsonl.gz", folder / "shard1.jsonl.gz"]
    output = folder / "trajectories.parquet"
    keep_correct(name, TOY, folder / "train.parquet", shards, output, folder / "report.json", said.append)
    return json.loads((folder / "report.json").read_text()), said


def test_only_distinct_correct_trajectories_are_kept_and_all_are_counted(stored):
    report, said = keep(stored)
    assert report == {
        "model": "a model", "questions": 3, "questions_with_a_correct_trajectory": 2, "trajectories": 6, "failed": 1,
        "correct": 3, "kept": 2, "turns": 8,
    }  # fmt: skip
    assert said == ["2 distinct of 3 correct trajectories, of 6 sampled (1 failed); 2 of 3 questions have one"]
    kept = pq.read_table(stored / "trajectories.parquet").to_pylist()
    assert [(t["document"], t["sample"]) for t in kept] == [(0, 0), (2, 0)]
    assert samples(stored / "trajectories.parquet") == 8


def test_nothing_to_learn_from_is_an_error_with_the_model(stored, tmp_path):
    (tmp_path / "train.parquet").write_bytes((stored / "train.parquet").read_bytes())
    for shard in range(2):
        with gzip.open(stored / f"shard{shard}.jsonl.gz", "rt") as old:
            records = [json.loads(line) for line in old]
        with gzip.open(tmp_path / f"shard{shard}.jsonl.gz", "wt") as new:
            new.writelines(json.dumps(r | {"turns": [], "error": "x"}) + "\n" for r in records)
    with pytest.raises(UserError, match=r"No trajectory of weak passes the verifier .* over 3 questions with 2 samples each"):
        keep(tmp_path, "weak")
    assert not (tmp_path / "trajectories.parquet").exists() and not (tmp_path / "report.json").exists()


@pytest.fixture
def dataset(stored, toy_tokenizer):
    keep(stored)
    reading = vars(toy_budgets()) | {"prompts": "brief"}
    own = {"data": str(stored / "train.parquet"), "reading": reading, "seed": 0}
    return TurnDataset(str(stored / "trajectories.parquet"), toy_tokenizer, {"tamtrl": own})


def test_a_sample_is_what_was_sampled_after_what_the_reader_saw(dataset, stored, toy_tokenizer):
    """Every id and mask, from the reader itself."""
    reader = Reader(Prompts(toy_tokenizer, "brief"), dataset.reader.budgets)
    examples = ExampleFile(stored / "train.parquet")
    expected = {}
    for row, trajectory in enumerate(pq.read_table(stored / "trajectories.parquet").to_pylist()):
        turns = replay(reader, reader.prepare(examples[trajectory["document"]]), trajectory["turns"])
        assert [turn.generation.ids for turn in turns] == trajectory["turns"]
        assert [toy_tokenizer.eos_token_id not in turn.prompt_ids[-40:-8] for turn in turns]
        expected |= {(row, turn.index): turn for turn in turns}
    assert len(dataset) == 8 and sorted(dataset.places) == sorted(expected)
    for item, place in enumerate(dataset.places):
        turn, got = expected[place], dataset[item]
        assert got["input_ids"].tolist() == turn.prompt_ids + turn.generation.ids
        assert got["loss_mask"].tolist() == [0] * len(turn.prompt_ids) + [1] * len(turn.generation.ids)
        assert got["position_ids"].tolist() == list(range(len(got["input_ids"])))


def packed(dataset) -> TensorDict:
    rows = [dataset[item] for item in range(len(dataset))]
    nested = {key: torch.nested.as_nested_tensor([row[key] for row in rows], layout=torch.jagged) for key in rows[0]}
    data = TensorDict(nested, batch_size=[len(rows)])
    count = sum(int(row["loss_mask"].sum()) for row in rows)
    return data.set_non_tensor("dp_size", 1).set_non_tensor("batch_num_tokens", count)


def predicting(data) -> list[bool]:
    """Places whose next token is a response's, row by row."""
    return [bool(mask) for row in data["loss_mask"].unbind() for mask in [*row.tolist()[1:], 0]]


def test_verls_loss_touches_response_tokens_only(dataset):
    data = packed(dataset)
    log_probs = torch.randn(data["input_ids"].values().shape, requires_grad=True)
    jagged = torch.nested.nested_tensor_from_jagged(log_probs, data["input_ids"].offsets())
    loss, _ = sft_loss(None, {"log_probs": jagged}, data)
    loss.backward()
    assert (log_probs.grad != 0).tolist() == predicting(data)


@pytest.mark.parametrize("response_logits", [False, True])
@pytest.mark.parametrize("k", [0, 5])
def test_the_distillation_loss_touches_response_tokens_only(dataset, toy_tokenizer, k, response_logits):
    from transformers import AutoModelForCausalLM

    teacher = AutoModelForCausalLM.from_pretrained(TOY).eval()
    data = packed(dataset)
    tokens = data["input_ids"].values()
    student = torch.randn(1, len(tokens), teacher.config.vocab_size, requires_grad=True)
    method = KnowledgeDistillation(teacher, 1.0, k, response_logits)
    places = torch.tensor(predicting(data))
    if response_logits:  # as the engine does: a response's logits go in, and what comes out is put in its place
        kept = method(data=data, student_logits=student[:, places])["distillation_losses"]
        values = torch.zeros(1, len(tokens)).index_copy(1, places.nonzero().squeeze(-1), kept)
    else:
        values = method(data=data, student_logits=student)["distillation_losses"]
    assert values.shape == (1, len(tokens))
    jagged = torch.nested.nested_tensor_from_jagged(values.squeeze(0), data["input_ids"].offsets())
    loss, _ = method(model_output={"distillation_losses": jagged}, data=data)
    loss.backward()
    assert (student.grad.abs().sum(dim=-1) != 0).squeeze(0).tolist() == predicting(data)
    # row by row, without packing: the same value for every token
    start = 0
    for row in data["input_ids"].unbind():
        with torch.no_grad():
            alone = teacher(row.unsqueeze(0)).logits.squeeze(0)
        rows = slice(start, start + len(row))
        wanted = forward_kl_top_k(*top_k(alone, k), student[0, rows]) if k else forward_kl(alone, student[0, rows])
        mask = torch.tensor(predicting(data)[rows])
        assert torch.allclose(values[0, rows][mask], wanted[mask], atol=1e-4)
        start += len(row)


# -- configuration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "devices"), [("cpu", 2), ("gpu", 8)])
@pytest.mark.parametrize("precompute", [False, True])
def test_verl_accepts_both_devices(device, devices, precompute):
    """Every key exists in verl's SFT configuration, and its own dataclasses take what we give. No GPU is needed for that."""
    from verl.utils.config import omega_conf_to_dataclass

    config = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    settings = config["distillation"] | {"precompute": precompute, "kl_top_k": 64}
    run = {
        "model": "0.6B", "method": "vanilla_kd", "variant": "main", "seed": 3, "model_path": "Qwen/Qwen3-0.6B", "loss": "kd",
        "train_data": "train.parquet", "trajectories": "trajectories.parquet", "teacher_path": "Qwen/Qwen3-8B",
        "teacher_probabilities": "teacher.parquet", "reading": config["reading"], "distillation": settings,
    }  # fmt: skip
    made = verl_config(build(DistillationRun, run, "x"), Resources(device, devices, 1, 64, 0), Path("checkpoints"), 100)
    assert made.data.train_batch_size == 64 and made.trainer.total_epochs == 5 and made.trainer.save_freq == 100
    assert made.data.max_token_len_per_gpu >= made.data.max_length == 8192 and made.data.train_batch_size % devices == 0
    own = made.data.tamtrl
    assert own.response_logits and made.model.external_lib == "tamtrl.training.response_logits"
    assert bool(own.teacher_path) != precompute and bool(own.teacher_probabilities) == precompute
    optimizer, engine = omega_conf_to_dataclass(made.optim), omega_conf_to_dataclass(made.engine)
    assert optimizer.lr == 1e-5 and list(optimizer.betas) == [0.9, 0.95] and engine.strategy == "fsdp2"
    assert "hf_model" in omega_conf_to_dataclass(made.checkpoint).save_contents


def test_a_sample_must_fit_a_micro_batch():
    config = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    settings = config["distillation"] | {"micro_batch_tokens": 4096}
    names = ("model", "method", "variant", "model_path", "train_data", "trajectories", "teacher_path", "teacher_probabilities")
    run = dict.fromkeys(names, "x") | {"seed": 0, "loss": "sft", "reading": config["reading"], "distillation": settings}
    with pytest.raises(UserError, match=r"micro_batch_tokens \(4096\) is less than reading.window_tokens \(8192\)"):
        verl_config(build(DistillationRun, run, "x"), Resources("cpu", 1, 1, 1, 0), Path("x"), 1)
    with pytest.raises(UserError, match=r"precompute needs distillation\.kl_top_k"):
        build(DistillationRun, run | {"distillation": settings | {"precompute": True}}, "x")


# -- thinking and vocabularies -----------------------------------------------------------------------------------------


def test_thoughts_are_asked_for_and_left_out(toy_tokenizer):
    prompts = Prompts(toy_tokenizer, "brief")
    plain = prompts.answer.fill(question=prompts.encode("What ?"), memory=prompts.empty_memory)
    thinking = prompts.with_thinking(plain)
    assert toy_tokenizer.decode(plain).endswith("</think> \n \n") and "think" not in toy_tokenizer.decode(thinking)
    assert plain[: len(thinking)] == thinking
    answer = [*prompts.encode("Ada ."), toy_tokenizer.eos_token_id]
    thought = prompts.tokenizer("<think>\nThe boss\n</think>\n\n", add_special_tokens=False)["input_ids"]
    assert after_thinking(prompts, thought + answer, 8) == answer
    assert after_thinking(prompts, thought + answer, 2) == answer[:2]
    with pytest.raises(Failed, match="the thought did not end"):
        after_thinking(prompts, thought[:-4], 8)


def test_templates_without_a_switch_cannot_think(toy_tokenizer, monkeypatch):
    monkeypatch.setattr(toy_tokenizer, "chat_template", toy_tokenizer.chat_template.replace("enable_thinking", "other"))
    with pytest.raises(UserError, match="no switch for thinking"):
        Prompts(toy_tokenizer, "brief").with_thinking([1])


def test_teachers_of_another_vocabulary_are_refused(tmp_path, bpe_tokenizer):
    require_same_vocabulary(TOY, TOY)
    shutil.copytree(TOY, tmp_path / "other")
    bpe_tokenizer.save_pretrained(tmp_path / "other")
    with pytest.raises(UserError, match=r"vocabularies of the student .* and the teacher .* differ"):
        require_same_vocabulary(TOY, str(tmp_path / "other"))
