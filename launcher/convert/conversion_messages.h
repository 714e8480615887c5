// SPDX-License-Identifier: Apache-2.0
//
// What the launcher and its convert worker send each other: the request, and the lines of the answer, as JSON.
//
// A path is bytes, JSON is text: each byte of it travels as the character of that number.
//
// Process: launcher and its convert worker. Pure functions.
#ifndef TBPROF_LAUNCHER_CONVERT_CONVERSION_MESSAGES_H_
#define TBPROF_LAUNCHER_CONVERT_CONVERSION_MESSAGES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/convert/conversion.h"

namespace tbprof {

inline constexpr char kConvertWorkerArgument[] = "--convert-worker";
// The worker's descriptors.
inline constexpr int kConvertRequestFd = 3;
inline constexpr int kConvertResultFd = 4;
inline constexpr int kConvertLogdirFd = 5;
inline constexpr int kConvertSpoolDirectoryFd = 6;

std::string BytesToText(const std::string& bytes);
std::string TextToBytes(const std::string& text);

nlohmann::json ToJson(const ConversionRequest& request);
// Throws where a field is missing or has another type.
ConversionRequest RequestFromJson(const nlohmann::json& json);

nlohmann::json ToJson(const ConversionResult& result);
// Fields that are missing are left as they are.
void ReadResult(const nlohmann::json& json, ConversionResult* result);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CONVERT_CONVERSION_MESSAGES_H_
