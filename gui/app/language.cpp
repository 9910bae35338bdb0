#include "gui/app/language.hpp"

#include <QCoreApplication>
#include <QDir>
#include <QLibraryInfo>
#include <QLocale>
#include <QTranslator>

namespace orrery {
namespace {

const QString& folder() {
    static const QString path = QStringLiteral(":/translations");
    return path;
}

// The first language the user reads of which there is a translation, English among them.
QString of_the_desktop() {
    const QStringList have = languages();
    for (const QString& wanted : QLocale::system().uiLanguages()) {
        const QString language = wanted.section(QLatin1Char('-'), 0, 0);
        if (have.contains(language)) return language;
    }
    return QStringLiteral("en");
}

} // namespace

QStringList languages() {
    QStringList out{QStringLiteral("en")};
    for (const QString& file : QDir(folder()).entryList({QStringLiteral("simgui_*.qm")}, QDir::Files, QDir::Name))
        out << file.section(QLatin1Char('_'), 1).section(QLatin1Char('.'), 0, 0);
    return out;
}

Language::Language(const QString& wanted) : name_(wanted.isEmpty() ? of_the_desktop() : wanted) {
    if (QLocale::system().language() != QLocale(name_).language()) QLocale::setDefault(QLocale(name_));
    if (name_ == QLatin1String("en")) return;
    load(QStringLiteral("simgui_") + name_, folder());
    load(QStringLiteral("qtbase_") + name_, QLibraryInfo::path(QLibraryInfo::TranslationsPath)); // of Qt's own dialogs, where installed
}

Language::~Language() {
    for (const auto& translator : translators_) QCoreApplication::removeTranslator(translator.get());
}

void Language::load(const QString& file, const QString& from) {
    auto translator = std::make_unique<QTranslator>();
    if (!translator->load(file, from)) return;
    QCoreApplication::installTranslator(translator.get());
    translators_.push_back(std::move(translator));
}

} // namespace orrery
