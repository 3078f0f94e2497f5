#include "model/gguf.h"

#include <stddef.h>

/* Numbers as the format assigns them; gaps are types that the format has withdrawn. */
static const mlsi_gguf_tensor_type types[] = {
    {0, "F32", MLSYS_F32},    {1, "F16", MLSYS_F16},    {2, "Q4_0", MLSYS_Q4_0},
    {3, "Q4_1", MLSYS_Q4_1},  {6, "Q5_0", MLSYS_Q5_0},  {7, "Q5_1", MLSYS_Q5_1},
    {8, "Q8_0", MLSYS_Q8_0},  {9, "Q8_1", 0},           {10, "Q2_K", 0},
    {11, "Q3_K", 0},          {12, "Q4_K", MLSYS_Q4_K}, {13, "Q5_K", MLSYS_Q5_K},
    {14, "Q6_K", MLSYS_Q6_K}, {15, "Q8_K", 0},          {16, "IQ2_XXS", 0},
    {17, "IQ2_XS", 0},        {18, "IQ3_XXS", 0},       {19, "IQ1_S", 0},
    {20, "IQ4_NL", 0},        {21, "IQ3_S", 0},         {22, "IQ2_S", 0},
    {23, "IQ4_XS", 0},        {24, "I8", MLSYS_I8},     {25, "I16", MLSYS_I16},
    {26, "I32", MLSYS_I32},   {27, "I64", MLSYS_I64},   {28, "F64", MLSYS_F64},
    {29, "IQ1_M", 0},         {30, "BF16", MLSYS_BF16}, {34, "TQ1_0", 0},
    {35, "TQ2_0", 0},         {39, "MXFP4", 0},
};
enum { N_TYPES = (int)(sizeof types / sizeof types[0]) };

const mlsi_gguf_tensor_type *mlsi_gguf_tensor_type_get(uint32_t number) {
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].number == number) return &types[i];
    return NULL;
}

uint32_t mlsi_gguf_tensor_type_of(mlsys_dtype dtype) {
    for (int i = 0; i < N_TYPES && dtype != 0; i++)
        if (types[i].dtype == dtype) return types[i].number;
    return UINT32_MAX;
}

const char *mlsi_gguf_type_name(mlsi_gguf_type type) {
    static const char *const names[MLSI_GGUF_TYPES] = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                       "i32", "f32", "bool", "string", "array",
                                                       "u64", "i64", "f64"};
    return (uint32_t)type < MLSI_GGUF_TYPES ? names[type] : "?";
}
