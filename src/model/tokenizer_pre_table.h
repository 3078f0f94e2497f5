/* The expressions of each pre-tokenizer, as the models' own tokenizer.json files have them, and the
 * names that GGUF files give them. Included by tokenizer_pre.c only.
 *
 * \s is written out as Unicode's White_Space (PCRE2's \s adds U+180E). Later expressions of a set
 * cut the words of earlier ones; what an expression does not match becomes words too. No expression
 * may take more than linear time on any text: sets that would (jais-2, tiny_aya, superbpe,
 * exaone-moe) are left out, and one is rewritten, where it says so. */
#ifndef MLSI_TOKENIZER_PRE_TABLE_H
#define MLSI_TOKENIZER_PRE_TABLE_H

#define SPACE                                                                                      \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"    \
    "\\x{205F}\\x{3000}"
#define S                 "[" SPACE "]"
#define NOT_S             "[^" SPACE "]"
#define SPACES            "|" S "+(?!" NOT_S ")|" S "+" /* leave one space to the word that follows */
#define SYMBOLS           " ?[^" SPACE "\\p{L}\\p{N}]+"
#define CONTRACTION       "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define ASCII_PUNCTUATION "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define UPPER             "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER             "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE_WORD       "[^\\r\\n\\p{L}\\p{N}]?"

#define GPT2   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" SYMBOLS SPACES
#define LINES  "[\\r\\n]*|" S "*[\\r\\n]+" SPACES
#define LLAMA3 CONTRACTION "|" BEFORE_WORD "\\p{L}+|\\p{N}{1,3}|" SYMBOLS LINES
#define QWEN2  CONTRACTION "|" BEFORE_WORD "\\p{L}+|\\p{N}|" SYMBOLS LINES
#define TEKKEN                                                                                     \
    BEFORE_WORD UPPER "*" LOWER "+|" BEFORE_WORD UPPER "+" LOWER "*|\\p{N}|" SYMBOLS               \
                      "[\\r\\n/]*|" S "*[\\r\\n]+" SPACES
#define GPT4O                                                                                      \
    BEFORE_WORD UPPER "*" LOWER "+" CONTRACTION "?|" BEFORE_WORD UPPER "+" LOWER "*" CONTRACTION   \
                      "?|\\p{N}{1,3}|" SYMBOLS "[\\r\\n/]*|" S "*[\\r\\n]+" SPACES
#define BLOOM " ?[^(" SPACE "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
#define CASED                                                                                      \
    "\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"                       \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"         \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"                  \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                       \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                 \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                 \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}"        \
    "\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}"         \
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"                 \
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"                  \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}"        \
    "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"         \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"                  \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"                 \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"               \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"         \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

enum { MAX_EXPRESSIONS = 6 };

typedef enum pre_set {
    SET_DEFAULT,
    SET_GPT2,
    SET_DIGITS,
    SET_FALCON,
    SET_LLAMA3,
    SET_QWEN2,
    SET_QWEN35,
    SET_DEEPSEEK_LLM,
    SET_DEEPSEEK_CODER,
    SET_DEEPSEEK_V3,
    SET_TEKKEN,
    SET_GPT4O,
    SET_BLOOM,
    SET_VIKING,
    SET_SEED_CODER,
    SET_BAILING,
    SETS
} pre_set;

static const char *const pre_sets[SETS][MAX_EXPRESSIONS] = {
    [SET_DEFAULT] = {"[\\p{P}\\$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
    [SET_GPT2] = {GPT2},
    [SET_DIGITS] = {"\\p{N}", GPT2},
    [SET_FALCON] = {"[\\p{P}\\$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"},
    [SET_LLAMA3] = {LLAMA3},
    [SET_QWEN2] = {QWEN2},
    [SET_QWEN35] = {CONTRACTION "|" BEFORE_WORD "[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE
                                "\\p{L}\\p{M}\\p{N}]+" LINES},
    /* The original's \s+$ would look through a run of spaces once from each of its places. */
    [SET_DEEPSEEK_LLM] = {"[\r\n]", S "?[A-Za-z" CASED "]+",
                          S "?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}"
                            "\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
                          "(?<!" S ")" S "+\\z",
                          "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", "\\p{N}+"},
    [SET_DEEPSEEK_CODER] = {"[\r\n]", S "?\\p{L}+", S "?\\p{P}+",
                            "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+",
                            "\\p{N}"},
    [SET_DEEPSEEK_V3] = {"\\p{N}{1,3}",
                         "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
                         ASCII_PUNCTUATION "[A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
                                           " ?[\\p{P}\\p{S}]+" LINES},
    [SET_TEKKEN] = {TEKKEN},
    [SET_GPT4O] = {GPT4O},
    [SET_BLOOM] = {BLOOM},
    [SET_VIKING] = {BLOOM, "\\p{N}"},
    [SET_SEED_CODER] = {CONTRACTION "|" BEFORE_WORD "\\p{L}+|\\p{N}| ?[^" SPACE
                                    "\\p{L}\\p{N}\\r\\n]+|" S "*[\\r\\n]+" SPACES},
    [SET_BAILING] = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^" SPACE
                     "\\p{L}\\p{N}]++[\\r\\n]*|" S "*[\\r\\n]" SPACES},
};

enum { IGNORE_MERGES = 1, ADD_BOS = 2 };

typedef struct pre_name {
    const char *name;
    pre_set set;
    int traits;
} pre_name;

static const pre_name pre_names[] = {
    {"default", SET_DEFAULT, 0},
    {"gpt-2", SET_GPT2, 0},
    {"phi-2", SET_GPT2, 0},
    {"mpt", SET_GPT2, 0},
    {"olmo", SET_GPT2, 0},
    {"jais", SET_GPT2, 0},
    {"trillion", SET_GPT2, 0},
    {"granite-docling", SET_GPT2, 0},
    {"exaone4", SET_GPT2, 0},
    {"gigachat", SET_GPT2, 0},
    {"a.x-4.0", SET_GPT2, 0},
    {"mellum", SET_GPT2, 0},
    {"modern-bert", SET_GPT2, 0},
    {"smollm", SET_DIGITS, 0},
    {"starcoder", SET_DIGITS, 0},
    {"refact", SET_DIGITS, 0},
    {"command-r", SET_DIGITS, 0},
    {"codeshell", SET_DIGITS, 0},
    {"exaone", SET_DIGITS, 0},
    {"minerva-7b", SET_DIGITS, 0},
    {"mellum2", SET_DIGITS, 0},
    {"falcon", SET_FALCON, 0},
    {"llama-bpe", SET_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"llama3", SET_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"llama-v3", SET_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"falcon3", SET_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"falcon-h1", SET_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"pixtral", SET_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"lfm2", SET_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"midm-2.0", SET_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"dbrx", SET_LLAMA3, 0},
    {"smaug-bpe", SET_LLAMA3, 0},
    {"chatglm-bpe", SET_LLAMA3, 0},
    {"glm4", SET_LLAMA3, IGNORE_MERGES},
    {"glm5", SET_LLAMA3, IGNORE_MERGES},
    {"qwen2", SET_QWEN2, 0},
    {"deepseek-r1-qwen", SET_QWEN2, 0},
    {"kormo", SET_QWEN2, 0},
    {"megrez", SET_QWEN2, 0},
    {"stablelm2", SET_QWEN2, 0},
    {"hunyuan", SET_QWEN2, 0},
    {"solar-open", SET_QWEN2, 0},
    {"grok-2", SET_QWEN2, 0},
    {"qwen35", SET_QWEN35, 0},
    {"deepseek-llm", SET_DEEPSEEK_LLM, 0},
    {"deepseek-coder", SET_DEEPSEEK_CODER, 0},
    {"deepseek-v3", SET_DEEPSEEK_V3, 0},
    {"hunyuan-dense", SET_DEEPSEEK_V3, 0},
    {"joyai-llm", SET_DEEPSEEK_V3, 0},
    {"tekken", SET_TEKKEN, IGNORE_MERGES | ADD_BOS},
    {"gpt-4o", SET_GPT4O, 0},
    {"llama4", SET_GPT4O, 0},
    {"kanana2", SET_GPT4O, 0},
    {"minimax-m2", SET_GPT4O, 0},
    {"bloom", SET_BLOOM, 0},
    {"poro-chat", SET_BLOOM, 0},
    {"gpt3-finnish", SET_BLOOM, 0},
    {"viking", SET_VIKING, 0},
    {"seed-coder", SET_SEED_CODER, 0},
    {"bailingmoe", SET_BAILING, 0},
    {"bailingmoe2", SET_BAILING, 0},
    {"llada-moe", SET_BAILING, 0},
};

#endif
