// Is everything that people read translatable, and translated? A translator that marks what goes through it finds what does not; lupdate
// finds what is new.
#include "gui/app/command_palette.hpp"
#include "gui/app/key_sheet.hpp"
#include "gui/app/language.hpp"
#include "tests/gui/windows.hpp"

#include <QAbstractButton>
#include <QAbstractItemView>
#include <QAction>
#include <QComboBox>
#include <QDockWidget>
#include <QGroupBox>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QProcess>
#include <QStandardPaths>
#include <QTabWidget>
#include <QTranslator>
#include <QtTest/QTest>
#include <QXmlStreamReader>

#include <map>
#include <set>

using namespace orrery;
using namespace orrery::windows;

namespace {

struct Message {
    QString context, source, type;
    bool numerus;
    QStringList translations;
};

std::vector<Message> messages(const QString& path) {
    QFile file(path);
    if (!file.open(QIODevice::ReadOnly)) qFatal("cannot read %s", qPrintable(path));
    QXmlStreamReader xml(&file);
    std::vector<Message> out;
    QString context;
    while (!xml.atEnd()) {
        if (!xml.readNextStartElement() && xml.atEnd()) break;
        if (!xml.isStartElement()) continue;
        if (xml.name() == QLatin1String("name"))
            context = xml.readElementText();
        else if (xml.name() == QLatin1String("message"))
            out.push_back({context, {}, {}, xml.attributes().hasAttribute(QLatin1String("numerus")), {}});
        else if (xml.name() == QLatin1String("source"))
            out.back().source = xml.readElementText();
        else if (xml.name() == QLatin1String("translation")) {
            out.back().type = xml.attributes().value(QLatin1String("type")).toString();
            if (!out.back().numerus) out.back().translations << xml.readElementText();
        } else if (xml.name() == QLatin1String("numerusform"))
            out.back().translations << xml.readElementText();
    }
    if (xml.hasError() && xml.error() != QXmlStreamReader::PrematureEndOfDocumentError)
        qFatal("%s: %s", qPrintable(path), qPrintable(xml.errorString()));
    return out;
}

const QString german = QStringLiteral(ORRERY_SOURCE_DIR "/gui/translations/simgui_de.ts");
const QChar mark(0x2042);

// Marks every text it knows; remembers those of ours that the file lacks.
class Marker : public QTranslator {
  public:
    explicit Marker(const std::vector<Message>& known) {
        for (const Message& m : known) known_.insert({m.context, m.source});
    }
    QString translate(const char* context, const char* source, const char*, int) const override {
        const QString where = QString::fromUtf8(context), what = QString::fromUtf8(source);
        if (known_.contains({where, what})) return mark + what;
        if (where.startsWith(QLatin1String("orrery"))) missing.insert(where + ": " + what);
        return {};
    }
    bool isEmpty() const override { return false; }
    mutable std::set<QString> missing;

  private:
    std::set<std::pair<QString, QString>> known_;
};

QStringList words_of(const QWidget& w) {
    QStringList out{w.accessibleName(), w.toolTip(), w.statusTip(), w.windowTitle()};
    if (const auto* label = qobject_cast<const QLabel*>(&w)) out << label->text();
    if (const auto* button = qobject_cast<const QAbstractButton*>(&w)) out << button->text();
    if (const auto* line = qobject_cast<const QLineEdit*>(&w)) out << line->placeholderText();
    if (const auto* box = qobject_cast<const QComboBox*>(&w))
        for (int i = 0; i < box->count(); ++i) out << box->itemText(i);
    if (const auto* tabs = qobject_cast<const QTabWidget*>(&w))
        for (int i = 0; i < tabs->count(); ++i) out << tabs->tabText(i);
    if (const auto* view = qobject_cast<const QAbstractItemView*>(&w); view && view->model())
        for (int c = 0; c < view->model()->columnCount(); ++c) out << view->model()->headerData(c, Qt::Horizontal).toString();
    return out;
}

// Names of files, fields, programs and their arguments, and numbers, are the same in every language.
bool is_data(const QString& text) {
    static const QStringList data{"serial", "threads", "mpi", "Orrery", "1"};
    static const QRegularExpression letters(QStringLiteral("\\p{L}"));
    return !letters.match(text).hasMatch() || data.contains(text) || text.contains('/') || text.contains("zz");
}

QStringList placeholders(const QString& text) {
    static const QRegularExpression form(QStringLiteral("%L?\\d|%n"));
    QStringList out;
    for (auto it = form.globalMatch(text); it.hasNext();) out << it.next().captured();
    out.removeDuplicates();
    out.sort();
    return out;
}

} // namespace

class TranslationsTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void germanIsWhole() {
        const auto all = messages(german);
        QVERIFY(all.size() > 500);
        for (const Message& m : all) {
            const QString what = m.context + ": " + m.source;
            QVERIFY2(m.type.isEmpty(), qPrintable(what + " is " + m.type));
            QVERIFY2(!m.translations.isEmpty(), qPrintable(what));
            for (const QString& t : m.translations) {
                QVERIFY2(!t.isEmpty() || m.source.isEmpty(), qPrintable(what));
                QStringList wanted = placeholders(m.source), have = placeholders(t);
                if (m.source.contains("%n")) wanted.removeAll("%n"), have.removeAll("%n"); // "one run" may leave the number out
                QVERIFY2(have == wanted, qPrintable(what + " -> " + t));
                QVERIFY2(m.source.contains('\n') == t.contains('\n'), qPrintable(what));
                QVERIFY2(m.source.endsWith(' ') == t.endsWith(' ') && m.source.startsWith(' ') == t.startsWith(' '), qPrintable(what));
            }
        }
    }

    void nothingIsNew() {
        const QString lupdate = QStringLiteral(ORRERY_LUPDATE);
        if (lupdate.isEmpty() || !QFile::exists(lupdate)) QSKIP("no lupdate here");
        QTemporaryDir folder;
        QProcess program;
        program.setWorkingDirectory(ORRERY_SOURCE_DIR);
        program.start(lupdate, {"gui", "-extensions", "cpp,hpp", "-I", ".", "-locations", "none", "-ts", folder.filePath("fresh.ts")});
        QVERIFY(program.waitForFinished(patience));
        const auto keys = [](const std::vector<Message>& all) {
            std::set<QString> out;
            for (const Message& m : all) out.insert(m.context + ": " + m.source);
            return out;
        };
        const auto fresh_ones = keys(messages(folder.filePath("fresh.ts"))), known = keys(messages(german));
        for (const QString& key : fresh_ones)
            QVERIFY2(known.contains(key), qPrintable("not in the translations (ninja update_translations): " + key));
        for (const QString& key : known) QVERIFY2(fresh_ones.contains(key), qPrintable("no longer used: " + key));
    }

    void everythingShownIsTranslated() {
        QTemporaryDir folder;
        Marker marker(messages(german));
        QCoreApplication::installTranslator(&marker);
        {
            MainWindow window(fresh());
            window.show();
            window.open({written(folder, "zz.json", small), written(folder, "zz2.json", small)});
            QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
            window.state().setBaseline(window.store().runs()[0].id);
            for (const QString& name : MainWindow::viewNames()) {
                window.showView(name);
                QTest::qWait(20);
                window.view(name)->grab(); // what is only painted goes through the translator too
            }
            QStringList plain;
            for (const QAction* action : window.registry().actions())
                for (const QString& text : {action->text(), action->toolTip(), ActionRegistry::menuOf(*action)})
                    if (!text.contains(mark)) plain << action->objectName() + ": " + text;
            for (const QWidget* w : window.findChildren<QWidget*>()) {
                if (w->objectName().startsWith("qt_") || w->inherits("QDockWidgetTitleButton") || w->inherits("QMenu"))
                    continue; // Qt's own
                if (w->objectName() == "ScrollLeftButton" || w->objectName() == "ScrollRightButton") continue;
                for (const QString& text : words_of(*w))
                    if (!text.contains(mark) && !is_data(text))
                        plain << QString::fromLatin1(w->metaObject()->className()) + " " + w->objectName() + ": " + text;
            }
            plain.removeDuplicates();
            QVERIFY2(plain.isEmpty(), qPrintable(plain.join("\n")));
            for (const QString& line : key_sheet_html(window.registry()).split("<tr>").mid(1))
                QVERIFY2(line.contains(mark), qPrintable(line));
        }
        QCoreApplication::removeTranslator(&marker);
        QVERIFY2(marker.missing.empty(), qPrintable(QStringList(marker.missing.begin(), marker.missing.end()).join("\n")));
    }

    void theProgramSpeaksGerman() {
        if (!languages().contains("de")) QSKIP("built without Qt's linguist tools");
        QProcess program;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.remove("LANGUAGE");
        environment.insert("LC_ALL", "C.UTF-8");
        program.setProcessEnvironment(environment);
        const auto help = [&](const QStringList& words) {
            program.start(QStringLiteral(ORRERY_BINARY_DIR "/bin/simgui"), words + QStringList{"--help"});
            if (!program.waitForFinished(patience)) qFatal("simgui does not end");
            return QString::fromUtf8(program.readAllStandardOutput());
        };
        QVERIFY(help({}).contains("Do not restore"));
        QVERIFY2(help({"--language", "de"}).contains("Sitzung"), "--language de");
        environment.insert("LC_ALL", "de_DE.UTF-8");
        environment.insert("LANG", "de_DE.UTF-8");
        program.setProcessEnvironment(environment);
        QVERIFY2(help({}).contains("Sitzung"), "LC_ALL=de_DE.UTF-8");
        QVERIFY(help({"--language", "en"}).contains("Do not restore"));
        const Language language("de");
        QCOMPARE(QCoreApplication::translate("orrery::MainWindow", "&File"), QString("&Datei"));
    }
};

QTEST_MAIN(TranslationsTest)
#include "translations_test.moc"
