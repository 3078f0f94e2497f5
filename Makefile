# libmlsys. `make help` lists the targets and variables.
CONFIG ?= release
CUDA   ?= auto
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
BUILD  ?= build
AR     ?= ar
NM     ?= nm
PYTHON ?= python3
PKG_CONFIG ?= pkg-config
CLANG_FORMAT ?= clang-format
FUZZ_SECONDS ?= 60
BENCH  ?= --quick
MODEL  ?=
PROMPT ?=

VERSION := $(shell sed -n 's/^\#define MLSYS_VERSION_STRING "\(.*\)"/\1/p' include/mlsys/mlsys.h)
# Before 1.0 the ABI may change with each minor version, so it is part of the soname.
SOVERSION := $(shell echo $(VERSION) | sed 's/^\(0\.[0-9]*\)\..*/\1/; s/^\([1-9][0-9]*\)\..*/\1/')
SONAME := libmlsys.so.$(SOVERSION)
OUT := $(BUILD)/$(CONFIG)

# ---- configurations ---------------------------------------------------------------------------
CFLAGS_release := -O2
CFLAGS_debug   := -O0 -g3 -DMLSI_DEBUG=1
CFLAGS_asan    := -O1 -g -fsanitize=address -fno-omit-frame-pointer -DMLSI_DEBUG=1
CFLAGS_ubsan   := -O1 -g -fsanitize=undefined,float-cast-overflow -fno-sanitize-recover=all -DMLSI_DEBUG=1
CFLAGS_tsan    := -O1 -g -fsanitize=thread -DMLSI_DEBUG=1
CFLAGS_cov     := -O0 -g --coverage -DMLSI_DEBUG=1
# Only clang has libFuzzer; `make fuzz` sets CC.
CFLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -DMLSI_DEBUG=1
LDFLAGS_asan   := -fsanitize=address
LDFLAGS_ubsan  := -fsanitize=undefined
LDFLAGS_tsan   := -fsanitize=thread
LDFLAGS_cov    := --coverage
LDFLAGS_fuzz   := -fsanitize=address,undefined
ifeq ($(CFLAGS_$(CONFIG)),)
$(error CONFIG=$(CONFIG) is unknown: release debug asan ubsan tsan cov)
endif
WERROR ?=
# V=1 prints whole commands.
V ?=
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$(2))')
WARN := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wno-missing-field-initializers $(if $(WERROR),-Werror)
# Floating point is a contract: no contraction, no reassociation, no excess precision.
FP := -ffp-contract=off -fno-fast-math
BASE_CFLAGS := -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -fno-math-errno $(FP) $(WARN) \
               -Iinclude -Isrc -MMD -MP $(CFLAGS_$(CONFIG)) $(CFLAGS)
# For rules that compile and link in one step, where the compiler would name the file otherwise.
DEP = -MF $@.d -MT $@
LIBS := -lm -lpthread
PC_REQUIRES :=

# ---- optional parts ---------------------------------------------------------------------------
# Each is found by pkg-config; mlsys_build_info() names those that are absent.
HAVE_PCRE2 := $(shell $(PKG_CONFIG) --exists libpcre2-8 2>/dev/null && echo 1)
HAVE_UTF8PROC := $(shell $(PKG_CONFIG) --exists libutf8proc 2>/dev/null && echo 1)
HAVE_JANSSON := $(shell $(PKG_CONFIG) --exists jansson 2>/dev/null && echo 1)
HAVE_ZLIB := $(shell $(PKG_CONFIG) --exists zlib 2>/dev/null && echo 1)
ifeq ($(HAVE_PCRE2),1)
BASE_CFLAGS += -DMLSI_HAVE_PCRE2=1 $(shell $(PKG_CONFIG) --cflags libpcre2-8)
LIBS += $(shell $(PKG_CONFIG) --libs libpcre2-8)
PC_REQUIRES += libpcre2-8
endif
ifeq ($(HAVE_UTF8PROC),1)
BASE_CFLAGS += -DMLSI_HAVE_UTF8PROC=1 $(shell $(PKG_CONFIG) --cflags libutf8proc)
LIBS += $(shell $(PKG_CONFIG) --libs libutf8proc)
PC_REQUIRES += libutf8proc
endif
ifeq ($(HAVE_JANSSON),1)
BASE_CFLAGS += -DMLSI_HAVE_JANSSON=1 $(shell $(PKG_CONFIG) --cflags jansson)
LIBS += $(shell $(PKG_CONFIG) --libs jansson)
PC_REQUIRES += jansson
endif
ifeq ($(HAVE_ZLIB),1)
BASE_CFLAGS += -DMLSI_HAVE_ZLIB=1 $(shell $(PKG_CONFIG) --cflags zlib)
LIBS += $(shell $(PKG_CONFIG) --libs zlib)
PC_REQUIRES += zlib
endif

# CUDA=auto compiles src/cuda/**/*.cu when nvcc is found, 1 fails without it, 0 never looks. The backend itself finds driver and
# compiler when it runs: its C needs neither of them here.
ifeq ($(filter $(CUDA),auto 0 1),)
$(error CUDA=$(CUDA) is unknown: auto 1 0)
endif
NVCC := $(if $(filter 0,$(CUDA)),,$(shell command -v nvcc 2>/dev/null || ls /usr/local/cuda/bin/nvcc 2>/dev/null))
ifeq ($(CUDA)$(NVCC),1)
$(error CUDA=1, but nvcc is neither on PATH nor in /usr/local/cuda/bin)
endif
CUDA_ARCHS ?= 80 90
NVCC_FLAGS := -std=c++17 -O3 -fmad=false -prec-div=true -prec-sqrt=true -ftz=false -Iinclude -Isrc \
  $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) -MD
CU_SRC := $(if $(NVCC),$(shell find src/cuda -name '*.cu' 2>/dev/null | LC_ALL=C sort))
CU_OUT := $(CU_SRC:src/%.cu=$(OUT)/fatbin/%.fatbin)

# ---- sources ----------------------------------------------------------------------------------
ROOMS := api core ir/graph ir/ops ir/passes ir/loop ir/codegen ir/proof autodiff run cpu model quant \
         train engine cuda cuda/rows
SRC := $(foreach r,$(ROOMS),$(sort $(wildcard src/$(r)/*.c)))
KERNELS := $(sort $(wildcard src/cpu/kernels/*.c))
# Each kernel source is compiled once per instruction set; src/cpu/simd.h picks the vocabulary.
ISAS := portable $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),avx2 avx512)
ISA_CFLAGS_portable := -DMLSI_ISA_IS_PORTABLE=1
ISA_CFLAGS_avx2     := -DMLSI_ISA_IS_AVX2=1 -mavx2 -mfma -mf16c
ISA_CFLAGS_avx512   := -DMLSI_ISA_IS_AVX512=1 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
KERNEL_CFLAGS := $(if $(filter release,$(CONFIG)),-O3)
# Named by the whole path: an archive keeps the last part of a name only, and "ar r" and "ar x" take
# two members of one name for the same.
object = $(OUT)/obj/$(subst /,-,$(1:src/%.c=%))$(2).o
OBJ := $(foreach s,$(SRC),$(call object,$(s))) \
       $(foreach i,$(ISAS),$(foreach s,$(KERNELS),$(call object,$(s),.$(i))))

# The vocabulary of generated code, as text inside the library; without libraries for exported programs.
GEN_USES := tools/embed.sh src/cpu/gen.h src/core/gen_args.h $(wildcard src/cpu/simd*.h src/core/elementary*.inc) $(addprefix src/core/,gen_scalar.h \
            philox.h scalar_ops.h small_float.h text_fn.h)
$(OUT)/gen/gen_text.c: $(GEN_USES)
	@mkdir -p $(@D)
	@tools/embed.sh mlsi_gen_text cpu/gen.h >$@
$(OUT)/gen/gen_text_freestanding.c: $(GEN_USES) src/cpu/gen_freestanding.h src/cpu/soft_float.h
	@mkdir -p $(@D)
	@tools/embed.sh mlsi_gen_text_freestanding cpu/gen_freestanding.h cpu/simd.h string.h >$@
# For NVRTC, which has no headers.
$(OUT)/gen/gen_text_device.c: $(GEN_USES) $(wildcard src/cuda/*.h)
	@mkdir -p $(@D)
	@tools/embed.sh mlsi_gen_device_text cuda/gen_device.h stdbool.h stdint.h string.h >$@
# Hand-written kernels, which come behind that text.
.SECONDARY:
CUDA_TEXTS := window product attention rope quant
$(OUT)/gen/gen_cuda_%.c: src/cuda/rows/%.cu $(wildcard src/cuda/rows/*.cuh) src/cuda/rows/params.h tools/embed.sh
	@mkdir -p $(@D)
	@tools/embed.sh mlsi_cuda_text_$* cuda/rows/$*.cu cuda/gen_device.h >$@
OBJ += $(OUT)/obj/gen_text.o $(OUT)/obj/gen_text_freestanding.o $(OUT)/obj/gen_text_device.o \
       $(CUDA_TEXTS:%=$(OUT)/obj/gen_cuda_%.o)
$(OUT)/obj/gen_%.o: $(OUT)/gen/gen_%.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(BASE_CFLAGS) -c $< -o $@

LIB_SHARED := $(OUT)/libmlsys.so.$(VERSION)
LIB_STATIC := $(OUT)/libmlsys.a

.PHONY: demo-train all lib shared static cuda tests check check-peer check-faults check-mutants bench bench-compiler bench-llm bench-tune bench-bins examples demo \
        format format-check lint symbols fuzz fuzz-bins fuzz-compiler docs install uninstall dist clean help FORCE
.DELETE_ON_ERROR:
all: lib examples ## library and examples
lib: shared static $(OUT)/mlsys.pc cuda ## libmlsys.so, libmlsys.a, mlsys.pc
shared: $(LIB_SHARED)
static: $(LIB_STATIC)
cuda: $(CU_OUT) ## compile all CUDA kernels (needs nvcc)

# Objects are rebuilt when the compiler or its flags change, not only when a source does.
FLAGS_TEXT := $(CC) $(BASE_CFLAGS) $(KERNEL_CFLAGS) $(VERSION)
$(OUT)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(FLAGS_TEXT)' | cmp -s - $@ || printf '%s\n' '$(FLAGS_TEXT)' >$@

# source, suffix of the object, flags
define object_rule
$(call object,$(1),$(2)): $(1) $(OUT)/flags
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$$(CC) $$(BASE_CFLAGS) $(3) -c $$< -o $$@
endef
$(foreach s,$(SRC),$(eval $(call object_rule,$(s))))
$(foreach i,$(ISAS),$(foreach s,$(KERNELS),$(eval \
  $(call object_rule,$(s),.$(i),$(KERNEL_CFLAGS) $(ISA_CFLAGS_$(i))))))
$(OUT)/fatbin/%.fatbin: src/%.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(NVCC_FLAGS) -MF $@.d -fatbin $< -o $@

# The list of objects is a prerequisite too, so that a removed source leaves the library.
$(OUT)/objects: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(OBJ) | cmp -s - $@ || printf '%s\n' $(OBJ) >$@
$(LIB_SHARED): $(OBJ) $(OUT)/objects src/libmlsys.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=src/libmlsys.map \
	  -Wl,--exclude-libs,ALL -Wl,-z,nodelete -Wl,--as-needed \
	  $(if $(filter asan ubsan tsan fuzz,$(CONFIG)),,-Wl,-z,defs) \
	  $(LDFLAGS_$(CONFIG)) $(LDFLAGS) -o $@ $(OBJ) $(LIBS)
	@ln -sf libmlsys.so.$(VERSION) $(OUT)/$(SONAME)
	@ln -sf $(SONAME) $(OUT)/libmlsys.so
$(LIB_STATIC): $(OBJ) $(OUT)/objects
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(OBJ)

# Relocatable: the prefix is found from where the file lies.
PC_PREFIX := $${pcfiledir}/$(shell realpath -m --relative-to=$(LIBDIR)/pkgconfig $(PREFIX))
PC_LIBDIR := $${prefix}/$(shell realpath -m --relative-to=$(PREFIX) $(LIBDIR))
$(OUT)/mlsys.pc: libmlsys.pc.in include/mlsys/mlsys.h $(OUT)/flags Makefile
	@sed -e 's|@PREFIX@|$(PC_PREFIX)|' -e 's|@LIBDIR@|$(PC_LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	  -e 's|@REQUIRES@|$(strip $(PC_REQUIRES))|' -e 's|@LIBS@|-lm -lpthread|' $< >$@

# ---- tests: unit suites link the static library and may look inside --------------------------
CHECK_CFLAGS := $(shell $(PKG_CONFIG) --cflags check 2>/dev/null)
CHECK_LIBS := $(shell $(PKG_CONFIG) --libs check 2>/dev/null)
ifneq ($(filter check check-peer tests,$(MAKECMDGOALS)),)
$(if $(CHECK_LIBS),,$(error tests need the Check library (Debian: check); ./setup check installs it))
endif
TEST_DIRS ?= unit conformance errors oom e2e abi fuzz
# TESTS="check_layout check_pool" runs those alone.
TESTS ?=
pick = $(if $(TESTS),$(foreach t,$(TESTS),$(filter %/$(t).c %/$(t).sh,$(1))),$(1))
TEST_SRC := $(call pick,$(foreach d,$(TEST_DIRS),$(sort $(wildcard tests/$(d)/check_*.c))))
TEST_BIN := $(TEST_SRC:tests/%.c=$(OUT)/tests/%)
PEER_BIN := $(patsubst tests/%.c,$(OUT)/tests/%,$(sort $(wildcard tests/peer/check_*.c)))
# A script is a test too: exit 0 passed, 77 skipped, anything else failed.
TEST_SCRIPTS := $(call pick,$(sort $(wildcard $(TEST_DIRS:%=tests/%/check_*.sh))))
TEST_LIB_SRC := $(sort $(wildcard tests/support/*.c tests/cuda_shim/*.c))
TEST_LIB_OBJ := $(TEST_LIB_SRC:%.c=$(OUT)/obj/%.o)
# An archive, so that a test links only the support that it uses.
TEST_LIB := $(OUT)/obj/tests/support.a
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BIN := $(FUZZ_SRC:tests/%.c=$(OUT)/tests/%)
REPLAY_BIN := $(if $(TESTS),,$(patsubst tests/fuzz/fuzz_%.c,$(OUT)/tests/fuzz/replay_%,$(filter $(TEST_DIRS:%=tests/%/%),$(FUZZ_SRC))))
$(OUT)/obj/tests/%.o: tests/%.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(BASE_CFLAGS) -Itests $(CHECK_CFLAGS) -c $< -o $@
$(TEST_LIB): $(TEST_LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(TEST_LIB_OBJ)
$(OUT)/tests/%: tests/%.c $(TEST_LIB) $(LIB_STATIC)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(DEP) -Itests $(CHECK_CFLAGS) $(LDFLAGS_$(CONFIG)) $< $(TEST_USES) $(TEST_LIB) $(LIB_STATIC) -o $@ \
	  $(CHECK_LIBS) $(LIBS)
$(OUT)/tests/fuzz/replay_%: tests/fuzz/fuzz_%.c tests/fuzz/replay.c $(LIB_STATIC)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(filter-out -MMD -MP,$(BASE_CFLAGS)) -Itests $(LDFLAGS_$(CONFIG)) $(filter %.c,$^) $(LIB_STATIC) -o $@ $(LIBS)
$(OUT)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(LIB_STATIC)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(DEP) -Itests -fsanitize=fuzzer $(LDFLAGS_$(CONFIG)) $< $(LIB_STATIC) -o $@ $(LIBS)
# A CUDA driver and compiler on host memory, which tests load in place of NVIDIA's.
FAKE_CUDA := $(OUT)/tests/libfakecuda.so
$(FAKE_CUDA): $(wildcard tests/fake_cuda/*.[ch] tests/cuda_shim/*.[ch]) src/cuda/driver.h $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(filter-out -MMD -MP -Wmissing-prototypes,$(BASE_CFLAGS)) $(LDFLAGS_$(CONFIG)) -Itests -shared $(filter %.c,$^) -o $@ -lpthread -ldl
tests: $(TEST_BIN) $(REPLAY_BIN) $(FAKE_CUDA)
.PRECIOUS: $(OUT)/obj/tests/%.o

export AR CC CXX CONFIG OUT PYTHON PKG_CONFIG
check: lib examples tests ## run all tests; ends with "N passed, N failed, N skipped"
	@tools/run_checks.sh $(OUT) $(TEST_BIN) $(REPLAY_BIN) $(TEST_SCRIPTS)
check-peer: lib examples $(PEER_BIN) ## compare with independent implementations (fetches models)
	@tools/check_peer.sh $(OUT) $(PEER_BIN)
check-faults: ## plant each listed defect in turn: its test must fail
	@tests/faults.sh
# The suites that tools/mutate.py links its mutants with, in a folder of its own.
MUTANTS_BUILD ?= build-mutants
AREA ?= gradients
check-mutants: ## share of small wrong changes that the suites notice: AREA=gradients|compiler ARGS="--count 200 --seed 1"
	@$(MAKE) BUILD=$(MUTANTS_BUILD) CONFIG=release \
	  $$($(PYTHON) tools/mutate.py --area $(AREA) --suites | sed 's,^,$(MUTANTS_BUILD)/release/tests/,')
	@BUILD=$(MUTANTS_BUILD) $(PYTHON) tools/mutate.py --area $(AREA) $(ARGS)
fuzz: ## libFuzzer on every tests/fuzz/fuzz_*.c, FUZZ_SECONDS each (needs clang)
	$(MAKE) CONFIG=fuzz CC=clang fuzz-bins
	@tools/run_fuzz.sh $(BUILD)/fuzz $(FUZZ_SECONDS) $(FUZZ_SRC)
fuzz-bins: $(FUZZ_BIN)
# COMPILE=k: every k-th batch of 60 graphs has its generated code compiled and run too, 0: none.
N ?= 6000
COMPILE ?= 1
fuzz-compiler: $(OUT)/tests/fuzz/check_compiler ## random graphs by every road of the compiler: N=100000 FIRST=batch COMPILE=k
	MLSYS_FUZZ_GRAPHS=$(N) MLSYS_FUZZ_FIRST=$(or $(FIRST),0) MLSYS_FUZZ_COMPILE=$(COMPILE) $<

# ---- examples and benches: they see the public header only -----------------------------------
PROGRAM_CFLAGS := -std=c11 -D_GNU_SOURCE $(FP) $(WARN) -Iinclude -Iexamples/support -MMD -MP $(CFLAGS_$(CONFIG)) $(CFLAGS)
PROGRAM_LIBS := -L$(OUT) -lmlsys -Wl,-rpath,'$$ORIGIN/..' -lm -lpthread
EXAMPLE_BIN := $(patsubst examples/%.c,$(OUT)/examples/%,$(sort $(wildcard examples/*.c))) \
               $(patsubst examples/%/,$(OUT)/examples/%,$(filter-out examples/support/,$(sort $(dir $(wildcard examples/*/*.c)))))
examples: $(EXAMPLE_BIN) ## build the example programs
$(OUT)/examples/%: examples/%.c $(LIB_SHARED) $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(PROGRAM_CFLAGS) $(DEP) $(LDFLAGS_$(CONFIG)) $< -o $@ $(PROGRAM_LIBS)
$(OUT)/obj/examples/%.o: examples/%.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(PROGRAM_CFLAGS) -c $< -o $@
# A folder of examples/ is one program, but examples/support, whose files each of them gets.
EXAMPLE_OBJ := $(patsubst %.c,$(OUT)/obj/%.o,$(sort $(wildcard examples/*/*.c)))
define program_rule
$(OUT)/examples/$(1): $(filter $(OUT)/obj/examples/$(1)/% $(OUT)/obj/examples/support/%,$(EXAMPLE_OBJ)) $(LIB_SHARED)
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$$(CC) $$(LDFLAGS_$$(CONFIG)) $$(filter %.o,$$^) -o $$@ $$(PROGRAM_LIBS)
endef
$(foreach d,$(filter-out support,$(sort $(notdir $(patsubst %/,%,$(dir $(wildcard examples/*/*.c)))))),$(eval $(call program_rule,$(d))))

demo: $(OUT)/examples/generate ## answer a question with a language model: MODEL=file PROMPT="text"
	@tools/demo.sh $(OUT)/examples/generate "$(MODEL)" "$(PROMPT)"

demo-train: ## train a network on Fashion-MNIST and print its accuracy: ARGS="--network conv --epochs 3"
	@tools/demo_train.sh $(OUT)/examples/train $(ARGS)

# The harness (bench/support) is shared; each bench/bench_*.c is one subject.
BENCH_LIB_SRC := $(sort $(wildcard bench/support/*.c))
BENCH_LIB_OBJ := $(BENCH_LIB_SRC:%.c=$(OUT)/obj/%.o)
BENCH_BIN := $(patsubst bench/%.c,$(OUT)/bench/%,$(sort $(wildcard bench/bench_*.c)))
# Smaller ones that are run by hand.
BENCH_ALL := $(patsubst bench/%.c,$(OUT)/bench/%,$(sort $(wildcard bench/*.c bench/ladder/*.c)))
# The commit that is measured, known to the program itself.
$(OUT)/bench/commit.h: FORCE
	@mkdir -p $(@D)
	@c=$$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown); \
	  printf '#define BENCH_COMMIT "%s"\n' "$$c" | cmp -s - $@ || printf '#define BENCH_COMMIT "%s"\n' "$$c" >$@
$(OUT)/obj/bench/support/program.o: $(OUT)/bench/commit.h
.PRECIOUS: $(OUT)/obj/bench/%.o
$(OUT)/obj/bench/%.o: bench/%.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(BASE_CFLAGS) -Ibench -I$(OUT)/bench -c $< -o $@
$(OUT)/bench/%: bench/%.c $(BENCH_LIB_OBJ) $(LIB_STATIC)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(DEP) -Ibench $(LDFLAGS_$(CONFIG)) $< $(BENCH_LIB_OBJ) $(LIB_STATIC) -o $@ $(LIBS) -ldl
# The ladder's steps are written for AVX2 (private: the library under them keeps its own flags).
$(OUT)/bench/ladder/%: private BASE_CFLAGS += $(if $(filter avx2,$(ISAS)),$(ISA_CFLAGS_avx2))
bench-bins: $(BENCH_ALL)
# The harness is tested like everything else.
BENCH_LIB := $(OUT)/obj/bench/support.a
$(BENCH_LIB): $(BENCH_LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(BENCH_LIB_OBJ)
$(OUT)/tests/unit/check_bench: TEST_USES := -Ibench $(BENCH_LIB)
$(OUT)/tests/unit/check_bench: $(BENCH_LIB)
bench: lib $(BENCH_BIN) ## measure, short (BENCH="--samples 40" instead: long); reports under $(OUT)/bench/
	@tools/run_bench.sh $(OUT) "$(BENCH)" $(BENCH_BIN)
bench-tune: lib $(OUT)/bench/tune ## the tuner against schedules by hand, 12 shapes, a minute each (BENCH=--quick is the default: 5 s each)
	@$(OUT)/bench/tune $(BENCH)
bench-compiler: lib $(OUT)/bench/bench_compiler ## generated kernels beside compiled PyTorch (the python3 in PATH), short (BENCH= instead: long)
	@tools/run_bench.sh $(OUT) "$(BENCH)" $(OUT)/bench/bench_compiler
bench-llm: lib $(OUT)/bench/bench_llm ## language models beside llama.cpp (MLSYS_LLAMA_BENCH), long; fetches models
	@for m in smollm2 gemma3; do tools/fetch-model.sh $$m --quiet >/dev/null || exit 1; done
	@tools/run_bench.sh $(OUT) "$(if $(filter --quick,$(BENCH)),,$(BENCH))" $(OUT)/bench/bench_llm

# ---- source care -------------------------------------------------------------------------------
FORMAT_SRC = $(shell git ls-files -co --exclude-standard '*.c' '*.h' '*.inc' '*.cu' '*.cuh' '*.cpp')
format: ## rewrite C, C++ and CUDA sources by .clang-format
	@$(CLANG_FORMAT) -i $(FORMAT_SRC)
format-check:
	@$(CLANG_FORMAT) --dry-run -Werror $(FORMAT_SRC) && echo "format-check: $(words $(FORMAT_SRC)) files"
lint: shared static $(OUT)/tools/check_ops $(OUT)/tools/gen_op_docs ## layers, symbols, sizes, op rules, docs, generated files, static analysis
	@tools/lint.sh $(OUT)
symbols: shared ## exported symbols = header = version script = docs/abi/symbols.txt
	@tools/check_symbols.sh $(OUT)
# The one tool that looks inside.
$(OUT)/tools/check_ops: tools/check_ops.c $(LIB_STATIC)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(DEP) $(LDFLAGS_$(CONFIG)) $< $(LIB_STATIC) -o $@ $(LIBS)
docs: $(OUT)/tools/gen_op_docs ## regenerate docs/ops/ from the op table
	@mkdir -p docs/ops && $(OUT)/tools/gen_op_docs docs/ops
$(OUT)/tools/%: tools/%.c $(LIB_SHARED) $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(PROGRAM_CFLAGS) $(DEP) $(LDFLAGS_$(CONFIG)) $< -o $@ $(PROGRAM_LIBS)

# ---- installation and release ------------------------------------------------------------------
install: lib ## install under DESTDIR/PREFIX
	install -d '$(DESTDIR)$(PREFIX)/include/mlsys' '$(DESTDIR)$(LIBDIR)/pkgconfig'
	install -m 644 include/mlsys/mlsys.h '$(DESTDIR)$(PREFIX)/include/mlsys/'
	install -m 755 $(LIB_SHARED) '$(DESTDIR)$(LIBDIR)/'
	ln -sf libmlsys.so.$(VERSION) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/libmlsys.so'
	install -m 644 $(LIB_STATIC) '$(DESTDIR)$(LIBDIR)/'
	install -m 644 $(OUT)/mlsys.pc '$(DESTDIR)$(LIBDIR)/pkgconfig/'
uninstall: ## remove what install put there
	rm -f '$(DESTDIR)$(PREFIX)/include/mlsys/mlsys.h' '$(DESTDIR)$(LIBDIR)/pkgconfig/mlsys.pc' \
	  $(foreach f,libmlsys.so.$(VERSION) $(SONAME) libmlsys.so libmlsys.a,'$(DESTDIR)$(LIBDIR)/$(f)')
	-rmdir '$(DESTDIR)$(PREFIX)/include/mlsys' 2>/dev/null
dist: ## libmlsys-VERSION.tar.gz of the commit, the same bytes every time
	@mkdir -p $(BUILD)
	git archive --format=tar --prefix=libmlsys-$(VERSION)/ HEAD | gzip -9n >$(BUILD)/libmlsys-$(VERSION).tar.gz
	@cd $(BUILD) && sha256sum libmlsys-$(VERSION).tar.gz
clean: ## remove $(BUILD)
	rm -rf $(BUILD)
help: ## this text
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile | expand -t 16
	@echo 'Variables: CONFIG=release|debug|asan|ubsan|tsan|cov  CUDA=auto|1|0  WERROR=1  BUILD PREFIX LIBDIR'
	@echo '  DESTDIR CC CFLAGS LDFLAGS  TESTS TEST_DIRS (check)  MODEL PROMPT (demo)  FUZZ_SECONDS (fuzz)  BENCH (bench)'

-include $(OBJ:.o=.d) $(TEST_BIN:=.d) $(PEER_BIN:=.d) $(FUZZ_BIN:=.d) $(TEST_LIB_OBJ:.o=.d) \
  $(BENCH_LIB_OBJ:.o=.d) $(BENCH_ALL:=.d) $(EXAMPLE_BIN:=.d) $(EXAMPLE_OBJ:.o=.d) $(CU_OUT:=.d)
