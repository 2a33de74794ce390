"""transformers: tiny models of many kinds; loss, gradients, three steps, generated tokens."""

import torch
import transformers
from cases import cases, losses, run

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "vocab_size": 99, "max_position_embeddings": 64, "num_key_value_heads": 2, "head_dim": 8,
    "n_embd": 32, "n_layer": 2, "n_head": 4, "d_model": 32, "encoder_layers": 2,
    "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "d_kv": 8, "d_ff": 64, "num_layers": 2,
    "num_heads": 4, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "embedding_size": 32, "num_experts": 4, "num_local_experts": 4,
    "num_experts_per_tok": 2, "state_size": 4, "dim": 32, "hidden_dim": 64, "n_heads": 4,
    "n_layers": 2, "emb_dim": 32, "rotary_dim": 4, "ffn_dim": 64, "word_embed_proj_dim": 32,
    "attention_window": 8, "attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0,
}
CAUSAL = """gpt2 gpt_neo gpt_neox gptj llama mistral mixtral qwen2 qwen3 gemma gemma2 phi phi3 opt
bloom falcon mamba rwkv stablelm olmo starcoder2 codegen granite cohere xglm bart pegasus""".split()
MASKED = """bert roberta distilbert albert electra deberta deberta-v2 mpnet longformer camembert
xlm-roberta squeezebert convbert fnet funnel nystromformer roformer""".split()
SEQ2SEQ = "t5 mt5 bart mbart pegasus marian blenderbot m2m_100 led".split()

UNSHIFTED = ("bart", "pegasus")  # causal models whose labels are the next tokens


def config_of(kind):
    known = transformers.AutoConfig.for_model(kind).to_dict()
    small = {k: v for k, v in SMALL.items() if k in known}
    if kind == "gpt_neo":
        small["attention_types"] = [[["global", "local"], 1]]
    config = transformers.AutoConfig.for_model(kind, **small)
    config.decoder_start_token_id = 1
    return config


def text(kind):
    way, _, name = kind.partition(":")
    loader = {"causal": transformers.AutoModelForCausalLM,
              "masked": transformers.AutoModelForMaskedLM,
              "seq2seq": transformers.AutoModelForSeq2SeqLM}[way]
    model = loader.from_config(config_of(name))
    tokens = torch.randint(3, 90, (2, 16))
    model.train()
    inputs, labels = tokens, tokens
    if way == "causal" and name in UNSHIFTED:
        inputs, labels = tokens[:, :-1], tokens[:, 1:]
    result = losses(model, lambda m: m(input_ids=inputs, labels=labels).loss)
    if way == "causal":
        model.eval()
        result.append(model.generate(tokens[:1, :5], max_new_tokens=5, do_sample=False))
    return result


cases([f"causal:{name}" for name in CAUSAL], text)
cases([f"masked:{name}" for name in MASKED], text)
cases([f"seq2seq:{name}" for name in SEQ2SEQ], text)
run()
